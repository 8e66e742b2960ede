package digits

// The IMA's adaptive differential coding: four bits for each sample, the low half of a
// byte first. A step of the table says how far a code moves the prediction, and each
// code moves the step.

var adpcmSteps = [89]int{
	7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 21, 23, 25, 28, 31, 34, 37, 41, 45, 50, 55, 60, 66, 73, 80, 88, 97, 107, 118,
	130, 143, 157, 173, 190, 209, 230, 253, 279, 307, 337, 371, 408, 449, 494, 544, 598, 658, 724, 796, 876, 963, 1060,
	1166, 1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660, 4026, 4428, 4871, 5358, 5894, 6484, 7132,
	7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767,
}

var adpcmMoves = [8]int{-1, -1, -1, -1, 2, 4, 6, 8}

// adpcm is what both ends of the coding know after each sample.
type adpcm struct{ sample, step int }

// next is the sample that the code stands for.
func (a *adpcm) next(code byte) int16 {
	size := adpcmSteps[a.step]
	difference := size >> 3
	for bit, part := range [3]int{size >> 2, size >> 1, size} {
		if code&(1<<bit) != 0 {
			difference += part
		}
	}
	if code&8 != 0 {
		difference = -difference
	}
	a.sample = max(-0x8000, min(0x7fff, a.sample+difference))
	a.step = max(0, min(len(adpcmSteps)-1, a.step+adpcmMoves[code&7]))
	return int16(a.sample)
}

// Expand returns so many samples of codes of four bits. It panics where there are
// fewer codes.
func Expand(codes []byte, samples int) []int16 {
	var a adpcm
	out := make([]int16, samples)
	for i := range out {
		out[i] = a.next(codes[i/2] >> (4 * (i % 2)) & 15)
	}
	return out
}
