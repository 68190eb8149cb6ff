package safexml

import (
	"strings"
	"testing"
)

// TestDoorCostsLittle: the front door reads a document once before it refuses it.
func TestDoorCostsLittle(t *testing.T) {
	open := `<samlp:Response xmlns:samlp="` + NSProtocol + `">`
	for name, raw := range map[string]string{
		"too long":  open + strings.Repeat("<a>", 200_000),
		"too deep":  open + strings.Repeat("<a>", 80_000),
		"too wide":  open + strings.Repeat("<a/>", 60_000),
		"too heavy": open + strings.Repeat(strings.Repeat("<a>", 60)+strings.Repeat("</a>", 60), 400),
	} {
		allocs := testing.AllocsPerRun(5, func() {
			if Messages.scan([]byte(raw), map[string]bool{}) == nil {
				t.Errorf("%s: let in", name)
			}
		})
		if allocs > 2*maxElements {
			t.Errorf("%s: %.0f allocations, want %d at most", name, allocs, 2*maxElements)
		}
	}
}
