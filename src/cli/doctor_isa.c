/* Which vector instruction set works. CPUID only announces: some virtual machines announce AMX and
 * trap on it, so each set is tried in a child process, whose death by SIGILL or SIGSEGV is the
 * answer. */
#include "cli/doctor.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>

enum { LEAF_7_0 = 0, LEAF_7_1 = 1, LEAF_1 = 2 };

/* A bit of CPUID: which leaf, which register (0 eax, 1 ebx, 2 ecx, 3 edx), which bit. */
struct bit {
    int leaf, reg, bit;
};

static bool has_bit(struct bit bit) {
    unsigned reg[4] = {0};
    int found = bit.leaf == LEAF_1
                    ? __get_cpuid(1, &reg[0], &reg[1], &reg[2], &reg[3])
                    : __get_cpuid_count(7, (unsigned)bit.leaf, &reg[0], &reg[1], &reg[2], &reg[3]);
    return found && (reg[bit.reg] >> bit.bit & 1);
}

/* The registers the system saves: bit 2 ymm, bits 5 to 7 zmm, 17 and 18 tiles. */
static bool system_saves(unsigned mask) {
    if (!has_bit((struct bit){LEAF_1, 2, 27})) return false;
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & mask) == mask;
}

static void try_sse41(void) {
    __asm__ volatile("pmulld %%xmm0, %%xmm1" ::: "xmm1");
}

static void try_avx2(void) {
    __asm__ volatile(
        "vpaddd %%ymm0, %%ymm1, %%ymm2\n vfmadd231ps %%ymm0, %%ymm1, %%ymm2\n vzeroupper" ::
            : "xmm2");
}

static void try_avx512(void) {
    __asm__ volatile("vaddps %%zmm0, %%zmm1, %%zmm2\n vpaddw %%zmm0, %%zmm1, %%zmm2\n vzeroupper" ::
                         : "xmm2");
}

static void try_vnni(void) {
    __asm__ volatile("vpdpbusd %%zmm0, %%zmm1, %%zmm2\n vzeroupper" ::: "xmm2");
}

static void try_bf16(void) {
    __asm__ volatile("vdpbf16ps %%zmm0, %%zmm1, %%zmm2\n vzeroupper" ::: "xmm2");
}

static void try_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    if (syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) != 0) _exit(1);
    _Alignas(64) unsigned char config[64] = {
        [0] = 1, [16] = 64, [48] = 16}; /* palette, tile 0: 16 rows of 64 bytes */
    __asm__ volatile("ldtilecfg %0\n tilezero %%tmm0\n tilerelease" ::"m"(config));
}

/* From the least to the best, each including the ones before. */
static const struct {
    const char *name;
    struct bit bits[4];
    int bit_count;
    unsigned saved;
    void (*try)(void);
} sets[] = {
    {"sse41", {{LEAF_1, 2, 19}}, 1, 0, try_sse41},
    {"avx2", {{LEAF_7_0, 1, 5}, {LEAF_1, 2, 12}}, 2, 0x6, try_avx2},
    {"avx512_core",
     {{LEAF_7_0, 1, 16}, {LEAF_7_0, 1, 17}, {LEAF_7_0, 1, 30}, {LEAF_7_0, 1, 31}},
     4,
     0xE6,
     try_avx512},
    {"avx512_core_vnni", {{LEAF_7_0, 2, 11}}, 1, 0xE6, try_vnni},
    {"avx512_core_bf16", {{LEAF_7_1, 0, 5}}, 1, 0xE6, try_bf16},
    {"avx512_core_amx", {{LEAF_7_0, 3, 24}, {LEAF_7_0, 3, 22}}, 2, 0x600E6, try_amx},
};
enum { SET_COUNT = sizeof sets / sizeof sets[0] };

static bool announced(int set) {
    for (int i = 0; i < sets[set].bit_count; i++) {
        if (!has_bit(sets[set].bits[i])) return false;
    }
    return !sets[set].saved || system_saves(sets[set].saved);
}

static bool works(int set) {
    signal(SIGCHLD, SIG_DFL); /* where it is ignored, the child's end would never be told */
    pid_t child = fork();
    if (child == 0) {
        signal(SIGILL, SIG_DFL); /* a handler of a sanitizer would make a report of it */
        signal(SIGSEGV, SIG_DFL);
        sets[set].try();
        _exit(0);
    }
    int end = 0;
    while (child > 0 && waitpid(child, &end, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(end) && WEXITSTATUS(end) == 0;
}

void doctor_look_isa(const struct check *check, struct finding *out) {
    (void)check;
    int best = -1, set = 0;
    while (set < SET_COUNT && announced(set) && works(set)) best = set++;
    bool trapped = set < SET_COUNT && announced(set);
    doctor_say(out, "%s (announced, tried, works)", best < 0 ? "sse2" : sets[best].name);
    if (trapped)
        doctor_judge(out, DOCTOR_WARN,
                     "%s is announced but fails when used; without it: ONEDNN_MAX_CPU_ISA=%s",
                     sets[set].name, best < 0 ? "DEFAULT" : sets[best].name);
}
#else
void doctor_look_isa(const struct check *check, struct finding *out) {
    (void)check;
    doctor_say(out, "not an x86 processor: not tried");
}
#endif
