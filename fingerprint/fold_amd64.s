//go:build !purego

#include "textflag.h"

// CSA is carrySave: sum += x + c, and x becomes the carry. The sum comes last, as
// it is what the additions wait for of one another.
#define CSA(sum, x, c) \
	VPXOR c, x, Y14     \
	VPAND c, x, x       \
	VPAND Y14, sum, Y15 \
	VPXOR Y14, sum, sum \
	VPOR  Y15, x, x

// ADD adds eight hashes to plane 0.
#define ADD(offset, carry) \
	VMOVDQU offset(SI), carry \
	CSA(Y0, carry, offset+32(SI))

// CARRY adds a carry to a plane.
#define CARRY(plane, in, out) \
	VPAND plane, in, out \
	VPXOR plane, in, plane

// func addAVX2(l *lanes, hashes []uint64)
// Y0 to Y9 are the planes, Y10 to Y13 carries. There are no more registers.
TEXT ·addAVX2(SB), NOSPLIT, $0-32
	MOVQ l+0(FP), DI
	MOVQ hashes_base+8(FP), SI
	MOVQ hashes_len+16(FP), CX
	SHRQ $6, CX
	VMOVDQU (DI), Y0
	VMOVDQU 32(DI), Y1
	VMOVDQU 64(DI), Y2
	VMOVDQU 96(DI), Y3
	VMOVDQU 128(DI), Y4
	VMOVDQU 160(DI), Y5
	VMOVDQU 192(DI), Y6
	VMOVDQU 224(DI), Y7
	VMOVDQU 256(DI), Y8
	VMOVDQU 288(DI), Y9

block:
	ADD(0, Y10)
	ADD(64, Y11)
	CSA(Y1, Y10, Y11)
	ADD(128, Y11)
	ADD(192, Y12)
	CSA(Y1, Y11, Y12)
	CSA(Y2, Y10, Y11)
	ADD(256, Y11)
	ADD(320, Y12)
	CSA(Y1, Y11, Y12)
	ADD(384, Y12)
	ADD(448, Y13)
	CSA(Y1, Y12, Y13)
	CSA(Y2, Y11, Y12)
	CSA(Y3, Y10, Y11)
	CARRY(Y4, Y10, Y11)
	CARRY(Y5, Y11, Y10)
	CARRY(Y6, Y10, Y11)
	CARRY(Y7, Y11, Y10)
	CARRY(Y8, Y10, Y11)
	VPXOR Y9, Y11, Y9
	ADDQ $512, SI
	DECQ CX
	JNZ  block

	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VMOVDQU Y4, 128(DI)
	VMOVDQU Y5, 160(DI)
	VMOVDQU Y6, 192(DI)
	VMOVDQU Y7, 224(DI)
	VMOVDQU Y8, 256(DI)
	VMOVDQU Y9, 288(DI)
	VZEROUPPER
	RET
