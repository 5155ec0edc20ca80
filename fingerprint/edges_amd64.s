//go:build !purego

#include "textflag.h"

// func notZerosAVX2(masks []uint64, b []byte)
TEXT ·notZerosAVX2(SB), NOSPLIT, $0-48
	MOVQ  masks_base+0(FP), DI
	MOVQ  masks_len+8(FP), CX
	MOVQ  b_base+24(FP), SI
	VPXOR Y0, Y0, Y0

block:
	VPCMPEQB  (SI), Y0, Y1
	VPCMPEQB  32(SI), Y0, Y2
	VPMOVMSKB Y1, AX
	VPMOVMSKB Y2, BX
	SHLQ      $32, BX
	ORQ       BX, AX
	NOTQ      AX
	MOVQ      AX, (DI)
	ADDQ      $8, DI
	ADDQ      $64, SI
	DECQ      CX
	JNZ       block
	VZEROUPPER
	RET
