package filter

import "math"

// Size returns the bytes of the filter that NewPrefix makes, and the
// probability that it says yes to a prefix that no fingerprint has.
func Size(prefix int, n, budget int64) (bytes int64, falsePositives float64) {
	if budget < lineBytes {
		return 0, 1
	}
	if lines, ok := arrayLines(prefix); ok && lines <= budget/lineBytes &&
		(lines*lineBytes <= smallArray || lines*(512/maxArrayBits) <= n) {
		return lines * lineBytes, 0
	}
	lines := min(budget/lineBytes, n/512*bitsPerFingerprint+n%512*bitsPerFingerprint/512+1)
	return lines * lineBytes, lineFull(float64(n) / float64(lines))
}

// lineFull returns the probability that all eight words of a line have some bit set,
// where the number of fingerprints in the line is Poisson-distributed: of j words
// that many given bits stay free with exp(-mean (1 - (63/64)^j)).
func lineFull(mean float64) float64 {
	sum, choose := 0.0, 1.0
	for j := range len(line{}) + 1 {
		sum += choose * math.Exp(-mean*(1-math.Pow(63./64, float64(j))))
		choose *= -float64(len(line{})-j) / float64(j+1)
	}
	return min(max(sum, 0), 1)
}
