#include "textflag.h"

// func descendAVX(weights, gradient, first, second *float32, n int, c *constants)
TEXT ·descendAVX(SB), NOSPLIT, $0-48
	MOVQ         weights+0(FP), DI
	MOVQ         gradient+8(FP), SI
	MOVQ         first+16(FP), R8
	MOVQ         second+24(FP), R9
	MOVQ         n+32(FP), CX
	MOVQ         c+40(FP), DX
	VBROADCASTSS 0(DX), Y8   // scale
	VBROADCASTSS 4(DX), Y9   // beta1
	VBROADCASTSS 8(DX), Y10  // 1 - beta1
	VBROADCASTSS 12(DX), Y11 // beta2
	VBROADCASTSS 16(DX), Y12 // 1 - beta2
	VBROADCASTSS 20(DX), Y13 // rate
	VBROADCASTSS 24(DX), Y14 // tiny

eight:
	VMULPS  (SI), Y8, Y0 // g
	VMULPS  (R8), Y9, Y1
	VMULPS  Y0, Y10, Y2
	VADDPS  Y2, Y1, Y1   // m
	VMULPS  (R9), Y11, Y3
	VMULPS  Y0, Y12, Y4
	VMULPS  Y0, Y4, Y4
	VADDPS  Y4, Y3, Y3   // v
	VMOVUPS Y1, (R8)
	VMOVUPS Y3, (R9)
	VSQRTPS Y3, Y5
	VADDPS  Y14, Y5, Y5
	VMULPS  Y1, Y13, Y6
	VDIVPS  Y5, Y6, Y6
	VMOVUPS (DI), Y7
	VSUBPS  Y6, Y7, Y7
	VMOVUPS Y7, (DI)
	ADDQ    $32, DI
	ADDQ    $32, SI
	ADDQ    $32, R8
	ADDQ    $32, R9
	SUBQ    $8, CX
	JNZ     eight
	VZEROUPPER
	RET
