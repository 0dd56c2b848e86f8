# Stretto: one non-recursive Makefile. `make run` and `make test` are the front door.
CC ?= gcc
B := build
CFLAGS ?= -O2 -g
STD := -std=c11 -D_GNU_SOURCE -Isrc -Iinclude -Wall -Wextra -Werror -ffp-contract=off -fopenmp -MMD -MP
SRC := $(shell find src -name '*.c')
OBJ := $(SRC:%.c=$(B)/%.o)
$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(STD) $(CFLAGS) -c $< -o $@
objects: $(OBJ)
-include $(OBJ:.o=.d)
