#include "textflag.h"

// The columns are taken 64 at a time, then 8, then those left, and each such
// strip from its first row to its last, with its sums in registers. A product is
// rounded before it is added, as it is in accumulateRows: so no VFMADD.

// masks+32−4·n begins with n words of ones.
DATA masks<>+0(SB)/8, $0xffffffffffffffff
DATA masks<>+8(SB)/8, $0xffffffffffffffff
DATA masks<>+16(SB)/8, $0xffffffffffffffff
DATA masks<>+24(SB)/8, $0xffffffffffffffff
DATA masks<>+32(SB)/8, $0
DATA masks<>+40(SB)/8, $0
DATA masks<>+48(SB)/8, $0
DATA masks<>+56(SB)/8, $0
GLOBL masks<>(SB), RODATA|NOPTR, $64

// func accumulateAVX(out, x, w *float32, columns, rows, stride int)
TEXT ·accumulateAVX(SB), NOSPLIT, $0-48
	MOVQ out+0(FP), DI
	MOVQ x+8(FP), SI
	MOVQ w+16(FP), BX
	MOVQ columns+24(FP), CX
	MOVQ rows+32(FP), DX
	MOVQ stride+40(FP), R8
	SHLQ $2, R8 // in bytes

strip64:
	CMPQ    CX, $64
	JLT     strip8
	VMOVUPS 0(DI), Y0
	VMOVUPS 32(DI), Y1
	VMOVUPS 64(DI), Y2
	VMOVUPS 96(DI), Y3
	VMOVUPS 128(DI), Y4
	VMOVUPS 160(DI), Y5
	VMOVUPS 192(DI), Y6
	VMOVUPS 224(DI), Y7
	MOVQ    SI, R9
	MOVQ    BX, R10
	MOVQ    DX, R11

row64:
	VBROADCASTSS (R9), Y8
	VMULPS       0(R10), Y8, Y9
	VMULPS       32(R10), Y8, Y10
	VMULPS       64(R10), Y8, Y11
	VMULPS       96(R10), Y8, Y12
	VADDPS       Y9, Y0, Y0
	VADDPS       Y10, Y1, Y1
	VADDPS       Y11, Y2, Y2
	VADDPS       Y12, Y3, Y3
	VMULPS       128(R10), Y8, Y9
	VMULPS       160(R10), Y8, Y10
	VMULPS       192(R10), Y8, Y11
	VMULPS       224(R10), Y8, Y12
	VADDPS       Y9, Y4, Y4
	VADDPS       Y10, Y5, Y5
	VADDPS       Y11, Y6, Y6
	VADDPS       Y12, Y7, Y7
	ADDQ         $4, R9
	ADDQ         R8, R10
	DECQ         R11
	JNZ          row64
	VMOVUPS      Y0, 0(DI)
	VMOVUPS      Y1, 32(DI)
	VMOVUPS      Y2, 64(DI)
	VMOVUPS      Y3, 96(DI)
	VMOVUPS      Y4, 128(DI)
	VMOVUPS      Y5, 160(DI)
	VMOVUPS      Y6, 192(DI)
	VMOVUPS      Y7, 224(DI)
	ADDQ         $256, DI
	ADDQ         $256, BX
	SUBQ         $64, CX
	JMP          strip64

strip8:
	CMPQ    CX, $8
	JLT     rest
	VMOVUPS (DI), Y0
	MOVQ    SI, R9
	MOVQ    BX, R10
	MOVQ    DX, R11

row8:
	VBROADCASTSS (R9), Y8
	VMULPS       (R10), Y8, Y9
	VADDPS       Y9, Y0, Y0
	ADDQ         $4, R9
	ADDQ         R8, R10
	DECQ         R11
	JNZ          row8
	VMOVUPS      Y0, (DI)
	ADDQ         $32, DI
	ADDQ         $32, BX
	SUBQ         $8, CX
	JMP          strip8

rest:
	TESTQ      CX, CX
	JZ         done
	LEAQ       masks<>+32(SB), R12
	SHLQ       $2, CX
	SUBQ       CX, R12
	VMOVUPS    (R12), Y13
	VMASKMOVPS (DI), Y13, Y0

rowRest:
	VBROADCASTSS (SI), Y8
	VMASKMOVPS   (BX), Y13, Y9
	VMULPS       Y9, Y8, Y9
	VADDPS       Y9, Y0, Y0
	ADDQ         $4, SI
	ADDQ         R8, BX
	DECQ         DX
	JNZ          rowRest
	VMASKMOVPS   Y0, Y13, (DI)

done:
	VZEROUPPER
	RET

// func rectifyAVX(v *float32, n int)
TEXT ·rectifyAVX(SB), NOSPLIT, $0-16
	MOVQ   v+0(FP), DI
	MOVQ   n+8(FP), CX
	VXORPS Y0, Y0, Y0

eight:
	VMOVUPS (DI), Y1
	VMAXPS  Y1, Y0, Y1 // of a NaN and a number, the NaN: it comes first here
	VADDPS  Y0, Y1, Y1 // no −0
	VMOVUPS Y1, (DI)
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     eight
	VZEROUPPER
	RET

// func unrectifyAVX(grad, y *float32, n int)
TEXT ·unrectifyAVX(SB), NOSPLIT, $0-24
	MOVQ   grad+0(FP), DI
	MOVQ   y+8(FP), BX
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0

masked:
	VMOVUPS  (BX), Y1
	VPCMPGTD Y0, Y1, Y1 // ones where y > 0, by its bits as unrectifyEach does
	VANDPS   (DI), Y1, Y1
	VMOVUPS  Y1, (DI)
	ADDQ     $32, DI
	ADDQ     $32, BX
	SUBQ     $8, CX
	JNZ      masked
	VZEROUPPER
	RET
