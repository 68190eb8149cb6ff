package faults

import (
	"math"
	"slices"
	"time"
)

// AUC returns how well one measurement tells a from b: 0.5 means not at all, 1 always. It is the larger of both
// directions.
func AUC(a, b []time.Duration) float64 {
	type sample struct {
		d    time.Duration
		ofA  bool
		rank float64
	}
	all := make([]sample, 0, len(a)+len(b))
	for _, d := range a {
		all = append(all, sample{d: d, ofA: true})
	}
	for _, d := range b {
		all = append(all, sample{d: d})
	}
	slices.SortFunc(all, func(x, y sample) int { return int(x.d - y.d) })
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].d == all[i].d {
			j++
		}
		for k := i; k < j; k++ {
			all[k].rank = float64(i+j+1) / 2 // ties share their rank
		}
		i = j
	}
	sum := 0.0
	for _, s := range all {
		if s.ofA {
			sum += s.rank
		}
	}
	n, m := float64(len(a)), float64(len(b))
	u := (sum - n*(n+1)/2) / (n * m)
	return max(u, 1-u)
}

// Welch returns the t of Welch's test without the slowest tenth of the samples, which only reflect the machine.
func Welch(a, b []time.Duration) float64 {
	all := slices.Sorted(slices.Values(append(slices.Clone(a), b...)))
	limit := all[len(all)*9/10]
	ma, va, na := moments(a, limit)
	mb, vb, nb := moments(b, limit)
	return math.Abs(ma-mb) / math.Sqrt(va/na+vb/nb)
}

func moments(d []time.Duration, limit time.Duration) (mean, variance, n float64) {
	for _, x := range d {
		if x <= limit {
			n++
			mean += float64(x)
		}
	}
	mean /= n
	for _, x := range d {
		if x <= limit {
			variance += (float64(x) - mean) * (float64(x) - mean)
		}
	}
	return mean, variance / (n - 1), n
}
