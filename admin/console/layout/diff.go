package layout

import "strings"

// maxCompared bounds the pairs of lines that Diff compares: the memory for them grows with the product of the lengths.
const maxCompared = 1 << 20

// Diff returns the lines that differ between two texts: - the old ones, + the new ones. Of texts that differ in too
// many lines it returns all between the first difference and the last.
func Diff(before, after string) (out []string) {
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	if before == "" {
		a = nil
	}
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(a)*len(b) > maxCompared {
		for _, line := range a {
			out = append(out, "- "+line)
		}
		for _, line := range b {
			out = append(out, "+ "+line)
		}
		return out
	}
	common := make([][]int, len(a)+1) // length of the longest common part of the rests
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return out
}
