package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
)

// table is a list for people: a header, a line for each item, and how many there are.
type table struct {
	noun   string // of one item: the count says "1 client" or "2 clients"
	header []string
	rows   [][]string
	more   string // what continues the list. Empty: it is complete
}

// lines returns the table with aligned columns. An empty list has no header.
func (t *table) lines() []string {
	var b bytes.Buffer
	if len(t.rows) > 0 {
		w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
		for _, row := range append([][]string{t.header}, t.rows...) {
			fmt.Fprintln(w, strings.Join(printed(row), "\t")) //nolint:errcheck // to memory
		}
		w.Flush() //nolint:errcheck // to memory
	}
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	lines = append(lines, count(len(t.rows), t.noun))
	if t.more != "" {
		lines = append(lines, t.more)
	}
	return lines
}

// printed makes cells safe to print, and shows those that are empty.
func printed(cells []string) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = cmp.Or(strings.Map(printable, c), "-")
	}
	return out
}

// printable replaces what would break a line or steer a terminal.
func printable(c rune) rune {
	if !unicode.IsPrint(c) {
		return '?'
	}
	return c
}

// count returns a number with its noun: 1 client, 2 clients, 2 people.
func count(n int, noun string) string {
	switch {
	case n != 1 && noun == "person":
		noun = "people"
	case n != 1:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// fields are lines of a name and a value, aligned. Fields without a value are left out.
type fields []struct{ name, value string }

func (f *fields) add(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		*f = append(*f, struct{ name, value string }{name, value})
	}
}

func (f fields) lines() []string {
	wide := 0
	for _, l := range f {
		wide = max(wide, len(l.name))
	}
	lines := make([]string, len(f))
	for i, l := range f {
		lines[i] = fmt.Sprintf("%-*s  %s", wide, l.name, l.value)
	}
	return lines
}

// jsonErrors makes a command and those below it write their errors as JSON to standard error when --json is given.
func jsonErrors(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if err == nil {
				return nil
			}
			if asJSON, flagErr := cmd.Flags().GetBool("json"); flagErr == nil && asJSON {
				cmd.SilenceErrors = true
				enc := json.NewEncoder(cmd.ErrOrStderr())
				enc.SetEscapeHTML(false)
				_ = enc.Encode(adminapi.Refusal{Error: err.Error()}) // the terminal is gone
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		jsonErrors(sub)
	}
}

// confirm asks at a terminal before something is lost. A script is not asked.
func confirm(cmd *cobra.Command, question string) error {
	if yes, err := cmd.Flags().GetBool("yes"); err != nil || yes || !isTerminal(cmd.InOrStdin()) {
		return err
	}
	fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] ") //nolint:errcheck // the terminal is gone
	answer, err := firstLine(cmd.InOrStdin())
	if err != nil && !errors.Is(err, errNoPassword) && !errors.Is(err, io.EOF) {
		return err
	}
	if !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		return errors.New("nothing was changed")
	}
	return nil
}

func yesFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("yes", false, "Do not ask first")
	return cmd
}
