package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// report is the output of a run: measured rows, and their targets.
type report struct {
	rows  []string
	goals []goal
}

// goal is a figure that has something to reach.
type goal struct {
	what          string
	reached, want float64
	atMost        bool
}

func (g goal) met() bool { return g.atMost && g.reached <= g.want || !g.atMost && g.reached >= g.want }

func (r *report) atLeast(what string, reached, want float64) {
	r.goals = append(r.goals, goal{what, reached, want, false})
}

func (r *report) atMost(what string, reached, want float64) {
	r.goals = append(r.goals, goal{what, reached, want, true})
}

// row prints what was measured of one server under load.
func (r *report) row(name string, f figures) {
	r.rows = append(r.rows, fmt.Sprintf("%-64s %9.0f %9.1f %9.2f %9.1f", name, f.rate, f.cpu, f.p99, f.own))
}

// note prints any other figure.
func (r *report) note(name, format string, args ...any) {
	r.rows = append(r.rows, fmt.Sprintf("%-64s %s", name, fmt.Sprintf(format, args...)))
}

func (r *report) notRun(name, peer string) {
	where := "$PEERS"
	if os.Getenv("PEERS") == "" {
		where = "$PEERS, which is not set"
	}
	r.note(name, "not run: no %s in %s", peer, where)
}

func (r *report) print() string {
	var s strings.Builder
	fmt.Fprintf(&s, "\n%d processors, %s, %s/%s, medians of %d rounds of %g s\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, *rounds, *seconds)
	fmt.Fprintf(&s, "\n%-64s %9s %9s %9s %9s\n", "measured", "per s", "µs server", "p99 ms", "µs load")
	for _, row := range r.rows {
		s.WriteString(row + "\n")
	}
	fmt.Fprintf(&s, "\n%-72s %10s %10s\n", "to reach", "goal", "reached")
	short := 0
	for _, g := range r.goals {
		sign, verdict := ">=", ""
		if g.atMost {
			sign = "<="
		}
		if !g.met() {
			verdict = "  falls short"
			short++
		}
		fmt.Fprintf(&s, "%-72s %10s %10s%s\n", g.what, fmt.Sprintf("%s %.4g", sign, g.want), fmt.Sprintf("%.3g", g.reached), verdict)
	}
	fmt.Fprintf(&s, "%d of %d goals reached\n", len(r.goals)-short, len(r.goals))
	return s.String()
}

// The lines of a document that a run stands between.
const beginsRun, endsRun = "<!-- run: begin -->\n", "<!-- run: end -->\n"

// intoDocument replaces the run in a document.
func intoDocument(path, text string, at time.Time) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(raw), beginsRun)
	_, after, ok2 := strings.Cut(rest, endsRun)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no place for a run: %s%s", path, beginsRun, endsRun)
	}
	run := fmt.Sprintf("\n%s, on %s:\n\n```text\n%s\n```\n\n", at.Format(time.DateOnly), machine(), strings.TrimSpace(text))
	return os.WriteFile(path, []byte(before+beginsRun+run+endsRun+after), 0o644) //nolint:gosec // a document
}

// machine describes this machine by its kernel.
func machine() string {
	field := func(file, name, unknown string) string {
		raw, _ := os.ReadFile(file)
		for line := range strings.Lines(string(raw)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
				return strings.TrimSpace(value)
			}
		}
		return unknown
	}
	memory := 0
	_, _ = fmt.Sscanf(field("/proc/meminfo", "MemTotal", "0"), "%d", &memory)
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%d processors (%s), %d GiB of memory, Linux %s, load average %s at the end of the run",
		runtime.NumCPU(), field("/proc/cpuinfo", "model name", "unknown"), (memory+1<<19)>>20, strings.TrimSpace(string(kernel)), before)
}
