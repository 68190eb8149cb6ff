package servertest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// Run runs `caddy gatehouse` with these arguments and input, and returns what it printed.
func Run(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	root := &cobra.Command{Use: "gatehouse"}
	caddycmd.Commands()["gatehouse"].CobraFunc(root)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetIn(strings.NewReader(input))
	root.SetArgs(args)
	root.SilenceErrors = true
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Run runs a command at the server, which must succeed.
func (s *Server) Run(input string, args ...string) string {
	s.T.Helper()
	out, err := Run(s.T, input, append(args, "--address", s.Admin)...)
	if err != nil {
		s.T.Fatalf("gatehouse %s: %v", strings.Join(args, " "), err)
	}
	return out
}

// Refused runs a command that must fail with these words.
func (s *Server) Refused(want, input string, args ...string) {
	s.T.Helper()
	out, err := Run(s.T, input, append(args, "--address", s.Admin)...)
	if err == nil || !strings.Contains(err.Error(), want) {
		s.T.Errorf("gatehouse %s = %q, %v, want an error with %q", strings.Join(args, " "), out, err, want)
	}
}

// Decode decodes JSON.
func Decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// Findings returns those of check, a line each, and the error that it ends with.
func (s *Server) Findings() (string, error) {
	s.T.Helper()
	out, err := Run(s.T, "", "check", "--json", "--address", s.Admin)
	if out == "" {
		s.T.Fatalf("check: %v", err)
	}
	var lines []string
	for _, f := range Decode[struct {
		Findings []struct{ Severity, Place, Reason, Fix string } `json:"findings"`
	}](s.T, out).Findings {
		if f.Reason == "" || f.Fix == "" {
			s.T.Errorf("finding without reason or fix: %+v", f)
		}
		lines = append(lines, f.Severity+" "+f.Place+" "+f.Reason+": "+f.Fix)
	}
	return strings.Join(lines, "\n"), err
}

// WantFinding fails unless one finding has all of these parts.
func (s *Server) WantFinding(parts ...string) {
	s.T.Helper()
	all, _ := s.Findings()
	for line := range strings.SplitSeq(all, "\n") {
		good := true
		for _, p := range parts {
			good = good && strings.Contains(line, p)
		}
		if good {
			return
		}
	}
	s.T.Errorf("check has no finding with %q:\n%s", parts, all)
}
