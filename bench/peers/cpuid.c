/* Reports the AMX tiles of the CPU to libraries of other programs, on virtual machines whose CPUID does not describe
 * them.
 *
 * Some hypervisors report AMX in CPUID but end the list of leaves before 0x1d and 0x1e, which hold the sizes of the
 * tiles. oneDNN (in PyTorch) then configures tiles of size 0 and crashes with an illegal instruction. This shared
 * library, which peer_setup.py compiles and loads before PyTorch, lets the kernel trap CPUID and fills in the sizes
 * that all CPUs with AMX have. It does nothing on other hosts. It is not part of Bochner, whose kernels do not read
 * these leaves. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    ARCH_SET_CPUID = 0x1012, /* of arch_prctl: 0 makes CPUID raise SIGSEGV in this thread and those that it starts */
    FEATURES = 7,
    TILES = 0x1d,
    PRODUCTS = 0x1e,
};

static void cpuid(uint32_t leaf, uint32_t part, uint32_t out[4])
{
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(part));
}

/* One palette of 8 tiles with 16 rows of 64 bytes; products of 16 rows and 64 bytes. */
static void describe(uint32_t leaf, uint32_t part, uint32_t out[4])
{
    if (leaf == 0 && out[0] < PRODUCTS) out[0] = PRODUCTS;
    if (leaf == TILES && part == 0) out[0] = 1;
    if (leaf == TILES && part == 1) {
        out[0] = 8192 | 1024u << 16;
        out[1] = 64 | 8u << 16;
        out[2] = 16;
    }
    if (leaf == PRODUCTS && part == 0) out[1] = 16 | 64u << 8;
}

static void emulate(int number, siginfo_t *info, void *argument)
{
    static const unsigned char instruction[] = {0x0f, 0xa2};
    greg_t *registers = ((ucontext_t *)argument)->uc_mcontext.gregs;
    uint32_t out[4], leaf = (uint32_t)registers[REG_RAX], part = (uint32_t)registers[REG_RCX];
    (void)info;
    if (memcmp((const void *)registers[REG_RIP], instruction, sizeof instruction) != 0) {
        signal(number, SIG_DFL); /* a fault of the program, which occurs again */
        return;
    }
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    cpuid(leaf, part, out);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    describe(leaf, part, out);
    registers[REG_RAX] = out[0];
    registers[REG_RBX] = out[1];
    registers[REG_RCX] = out[2];
    registers[REG_RDX] = out[3];
    registers[REG_RIP] += (greg_t)sizeof instruction;
}

__attribute__((constructor)) static void start(void)
{
    struct sigaction action = {.sa_sigaction = emulate, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    uint32_t out[4];
    cpuid(FEATURES, 0, out);
    const int has_tiles = out[3] >> 24 & 1;
    cpuid(TILES, 0, out);
    if (has_tiles && out[0] == 0 && sigaction(SIGSEGV, &action, NULL) == 0) syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
