package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

// TestPrintedTextSteersNoTerminal: whatever a name or a reason has, it can neither move the cursor nor make a line of a
// table of its own.
func TestPrintedTextSteersNoTerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := new(cobra.Command)
	cmd.Flags().Bool("json", false, "")
	cmd.SetOut(&out)
	list := table{noun: "client", header: []string{"ID", "NAME", "STATE"}, rows: [][]string{{"shop", "a\x1b[2J\nforged\tenabled\u202e", ""}}}
	if err := printResult(cmd, nil, append(list.lines(), "reason\x07 \x1b]0;title\x07")...); err != nil {
		t.Fatal(err)
	}
	const want = "ID    NAME                   STATE\nshop  a?[2J?forged?enabled?  -\n1 client\nreason? ?]0;title?\n"
	if got := out.String(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
