/* mpi: the same all-reduce by MPI_Allreduce in place: mpirun -n RANKS bench-comm-mpi BYTES REPEATS.
 * Prints as ranks.c does. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
    int count = (int)(atol(argv[1]) / (long)sizeof(float)), repeats = atoi(argv[2]);
    float *data = calloc((size_t)count, sizeof *data);
    double *seconds = calloc((size_t)repeats, sizeof *seconds);
    if (!data || !seconds) MPI_Abort(MPI_COMM_WORLD, 5);
    for (int i = -repeats / 10 - 2; i < repeats; i++) {
        double begin = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (i >= 0) seconds[i] = MPI_Wtime() - begin;
    }
    for (int i = 0; rank == 0 && i < repeats; i++) printf("%.3f\n", seconds[i] * 1e6);
    free(data);
    free(seconds);
    MPI_Finalize();
    return 0;
}
