#include "textflag.h"

DATA marks<>+0(SB)/1, $0x22 // "
DATA marks<>+1(SB)/1, $0x5c // \
DATA marks<>+2(SB)/1, $0x1f // the last control character
DATA marks<>+3(SB)/1, $0x20 // space
GLOBL marks<>(SB), RODATA|NOPTR, $4

// func plainAVX2(p *byte, blocks int, after uint32) (done, begun int, afterLast, high uint32)
TEXT ·plainAVX2(SB), NOSPLIT, $0-48
	MOVQ         p+0(FP), SI
	MOVQ         blocks+8(FP), CX
	MOVL         after+16(FP), R8
	VPBROADCASTB marks<>+0(SB), Y8
	VPBROADCASTB marks<>+1(SB), Y9
	VPBROADCASTB marks<>+2(SB), Y10
	VPBROADCASTB marks<>+3(SB), Y11
	VPXOR        Y5, Y5, Y5
	XORQ         AX, AX
	XORQ         DX, DX

block:
	VMOVDQU  (SI), Y0
	VPCMPEQB Y8, Y0, Y1
	VPCMPEQB Y9, Y0, Y2
	VPMINUB  Y10, Y0, Y3
	VPCMPEQB Y0, Y3, Y3
	VPOR     Y1, Y2, Y1
	VPOR     Y3, Y1, Y1
	VPTEST   Y1, Y1
	JNZ      done

	VPOR Y0, Y5, Y5

	// A word begins where no space is and one was before.
	VPCMPEQB  Y11, Y0, Y4
	VPMOVMSKB Y4, R9
	MOVL      R9, R10
	ADDL      R10, R10
	ORL       R8, R10
	MOVL      R9, R8
	SHRL      $31, R8
	NOTL      R9
	ANDL      R9, R10
	POPCNTL   R10, R10
	ADDQ      R10, AX
	ADDQ      $32, SI
	INCQ      DX
	DECQ      CX
	JNZ       block

done:
	VPMOVMSKB Y5, R9
	VZEROUPPER
	MOVQ DX, done+24(FP)
	MOVQ AX, begun+32(FP)
	MOVL R8, afterLast+40(FP)
	MOVL R9, high+44(FP)
	RET
