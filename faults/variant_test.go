package faults

import "testing"

// The variants that faults are tried on.
var (
	// unsynced says that records are on disk before they are.
	unsynced = Variant{"storage/badgerstore", `unix\.Fdatasync\(int\(f\.Fd\(\)\)\)`, `error(nil)`}
	// panicking panics when it is asked about one token, at the introspection endpoint and in protect.
	panicking = Variant{
		"authz/token", `(func \(\w+ \*Ledger\) ask\(ctx context\.Context, [^)]*\b(\w+) string\) \([^)]*\) \{\n)`,
		"$1\tif $2 == \"lab-panic\" {\n\t\tpanic(\"lab\")\n\t}\n",
	}
)

// TestVariants: the sources have what the variants change, also in the round that builds none of them.
func TestVariants(t *testing.T) {
	t.Parallel()
	for _, v := range []Variant{unsynced, panicking} {
		if _, _, err := v.apply(".."); err != nil {
			t.Error(err)
		}
	}
}
