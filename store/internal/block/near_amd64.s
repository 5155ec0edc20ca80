#include "go_asm.h"
#include "textflag.h"

// func passFarVectors(c *Comparison, eights unsafe.Pointer, n int) (passed int, near uint8)
TEXT ·passFarVectors(SB), NOSPLIT, $0-33
	MOVQ c+0(FP), DX
	MOVQ eights+8(FP), SI
	MOVQ n+16(FP), CX
	VMOVDQU64 Comparison_bytes(DX), Z0
	VMOVDQU64 Comparison_queries(DX), Z1
	VMOVDQU64 Comparison_masks(DX), Z2
	VPBROADCASTQ Comparison_k(DX), Z3
	KMOVQ Comparison_group(DX), K1
	MOVQ Comparison_width(DX), BX
	XORL R8, R8
next:
	XORL AX, AX
	CMPQ R8, CX
	JGE  done
	VMOVDQU8.Z (SI), K1, Z4
	VPERMB Z4, Z0, Z4            // the word of each of the low bits
	VPTERNLOGQ $0x28, Z2, Z1, Z4 // (word ^ query) & mask
	VPOPCNTQ Z4, Z4
	VPCMPUQ $2, Z3, Z4, K2       // at most k
	KMOVB K2, AX
	TESTL AX, AX
	JNE  done
	ADDQ BX, SI
	INCQ R8
	JMP  next
done:
	MOVQ R8, passed+24(FP)
	MOVB AX, near+32(FP)
	VZEROUPPER
	RET
