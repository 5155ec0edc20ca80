package fingerprint

import "math"

// weightScale makes Sqrt and Log fine enough as integers.
const weightScale = 16

func (o *Options) weight(f feature) int {
	if o.Weigher != nil {
		return o.Weigher.Weight(f.text, f.count)
	}
	n := float64(f.count)
	switch o.Weight {
	case Count:
		return f.count
	case Sqrt:
		return int(math.Round(weightScale * math.Sqrt(n)))
	case Log:
		// The conversion keeps a processor from fusing, and so rounding otherwise.
		return int(math.Round(weightScale + float64(weightScale*math.Log(n))))
	case Once:
		return 1
	}
	return min(f.count, o.cap())
}
