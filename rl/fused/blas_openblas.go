//go:build openblas

package fused

/*
#cgo LDFLAGS: -lopenblas
#include <stdlib.h>

// Declared here, and weakly, because not every build of OpenBLAS has them all:
// one made for a single kind of core has no choice of kernels.
extern char *openblas_get_corename(void) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));
extern void openblas_set_num_threads(int) __attribute__((weak));
extern void gotoblas_dynamic_quit(void) __attribute__((weak));
extern void gotoblas_dynamic_init(void) __attribute__((weak));

static const char *gearshift_corename(void) {
	return openblas_get_corename ? openblas_get_corename() : "";
}

// gearshift_avx512 and gearshift_avx2 ask the processor and the kernel.
static int gearshift_avx512(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
	return 0;
#endif
}

static int gearshift_avx2(void) {
#if defined(__x86_64__)
	__builtin_cpu_init();
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
	return 0;
#endif
}

// gearshift_choose_core makes OpenBLAS choose its kernels again, by the name
// given. It must run while nothing computes.
static void gearshift_choose_core(const char *name) {
	if (!gotoblas_dynamic_quit || !gotoblas_dynamic_init)
		return;
	setenv("OPENBLAS_CORETYPE", name, 1);
	gotoblas_dynamic_quit();
	gotoblas_dynamic_init();
	unsetenv("OPENBLAS_CORETYPE");
}

static void gearshift_one_thread(void) {
	if (openblas_set_num_threads)
		openblas_set_num_threads(1);
}
*/
import "C"

import (
	"os"
	"slices"
	"strings"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/netlib/blas/netlib"
)

// library multiplies the matrices.
var library blas.Float32Level3 = netlib.Implementation{}

// Kernels that OpenBLAS chooses by itself on a processor newer than the library:
// the oldest there are (OpenMathLib/OpenBLAS#4267), or those for AVX2 where it
// has some for AVX-512.
var (
	oldCores    = []string{"Prescott", "Core2", "Katmai", "Northwood"}
	avx512Cores = []string{"SkylakeX", "Cooperlake", "SapphireRapids"}
)

// init keeps OpenBLAS to one thread, because at these sizes a second one gains
// little and collapses on a busy machine, and mends its choice of kernels unless
// the user has made one.
func init() {
	C.gearshift_one_thread()
	if os.Getenv("OPENBLAS_CORETYPE") != "" {
		return
	}
	if name := betterCore(core()); name != "" {
		chooseCore(name)
	}
}

// chooseCore switches to the kernels named, while nothing computes.
func chooseCore(name string) {
	c := C.CString(name)
	defer C.free(unsafe.Pointer(c))
	C.gearshift_choose_core(c)
}

// betterCore names kernels that this processor runs quicker than the present
// ones, or "".
func betterCore(present string) string {
	switch {
	case present == "" || slices.Contains(avx512Cores, present):
		return ""
	case C.gearshift_avx512() != 0:
		return "SkylakeX"
	case C.gearshift_avx2() != 0 && slices.Contains(oldCores, present):
		return "Haswell"
	}
	return ""
}

// core is the name of the kernels in use.
func core() string { return C.GoString(C.gearshift_corename()) }

// BLAS names the matrix library that this build trains with, and its kernels.
func BLAS() string {
	return strings.TrimSpace("openblas " + core())
}
