package layout

import "testing"

// TestDataLines: no character of a message ends it, whichever of the three line ends it has.
func TestDataLines(t *testing.T) {
	t.Parallel()
	const in, want = "a\rid: 1\r\nb\n\nc\r\rd", "a\ndata: id: 1\ndata: b\ndata: \ndata: c\ndata: \ndata: d"
	if got := dataLines.Replace(in); got != want {
		t.Errorf("Replace(%q) = %q, want %q", in, got, want)
	}
}
