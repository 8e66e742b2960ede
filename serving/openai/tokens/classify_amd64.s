#include "textflag.h"

DATA marks<>+0(SB)/1, $0x20 // space, and what makes a letter a small one
DATA marks<>+1(SB)/1, $0x61 // a
DATA marks<>+2(SB)/1, $0x41 // A
DATA marks<>+3(SB)/1, $0x30 // 0
DATA marks<>+4(SB)/1, $0x5c // \
DATA marks<>+5(SB)/1, $25   // the last letter
DATA marks<>+6(SB)/1, $9    // the last digit
DATA marks<>+7(SB)/1, $0x1f // the last control character
GLOBL marks<>(SB), RODATA|NOPTR, $8

// From mask to mask of all 64 bytes: the low half is in AX, the high one in BX.
#define BOTH(offset) \
	SHLQ $32, BX      \
	ORQ  BX, AX       \
	MOVQ AX, offset(DI)

// A range of bytes: those that are at most limit above first.
#define RANGE(from0, from1, first, limit, offset) \
	VPSUBB    first, from0, Y2 \
	VPMINUB   limit, Y2, Y3    \
	VPCMPEQB  Y2, Y3, Y3       \
	VPMOVMSKB Y3, AX           \
	VPSUBB    first, from1, Y2 \
	VPMINUB   limit, Y2, Y3    \
	VPCMPEQB  Y2, Y3, Y3       \
	VPMOVMSKB Y3, BX           \
	BOTH(offset)

// A single byte.
#define SAME(byte, offset) \
	VPCMPEQB  byte, Y0, Y2 \
	VPMOVMSKB Y2, AX       \
	VPCMPEQB  byte, Y1, Y3 \
	VPMOVMSKB Y3, BX       \
	BOTH(offset)

// func classifyAVX2(b *[64]byte, x *block)
TEXT ·classifyAVX2(SB), NOSPLIT, $0-16
	MOVQ         b+0(FP), SI
	MOVQ         x+8(FP), DI
	VMOVDQU      (SI), Y0
	VMOVDQU      32(SI), Y1
	VPBROADCASTB marks<>+0(SB), Y8
	VPBROADCASTB marks<>+1(SB), Y9
	VPBROADCASTB marks<>+2(SB), Y10
	VPBROADCASTB marks<>+3(SB), Y11
	VPBROADCASTB marks<>+4(SB), Y12
	VPBROADCASTB marks<>+5(SB), Y13
	VPBROADCASTB marks<>+6(SB), Y14
	VPBROADCASTB marks<>+7(SB), Y15
	VPOR         Y8, Y0, Y4
	VPOR         Y8, Y1, Y5
	VPXOR        Y6, Y6, Y6

	RANGE(Y4, Y5, Y9, Y13, 0)   // letter
	RANGE(Y0, Y1, Y10, Y13, 8)  // upper
	RANGE(Y0, Y1, Y11, Y14, 16) // digit
	SAME(Y8, 24)                // space
	SAME(Y12, 32)               // slash
	RANGE(Y0, Y1, Y6, Y15, 40)  // control

	VPMOVMSKB Y0, AX // high
	VPMOVMSKB Y1, BX
	BOTH(48)
	VZEROUPPER
	RET
