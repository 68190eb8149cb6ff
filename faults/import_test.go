package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// moved are the persons of an export of Keycloak that is made here.
type moved struct {
	file, prefix string
	all          int
}

// Of the persons of an export, one in a hundred has a username that no one can have here, and one in a hundred an
// authenticator app, which does not come.
func (m moved) refused(i int) bool { return i%100 == 50 }
func (m moved) noted(i int) bool   { return i%100 == 51 }

func (m moved) username(i int) string {
	if m.refused(i) {
		return fmt.Sprintf("%s %d", m.prefix, i)
	}
	return fmt.Sprintf("%s-%d", m.prefix, i)
}

func (m moved) id(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", len(m.prefix), i) }

// good returns the number of rows that can be imported.
func (m moved) good() (n int) {
	for i := range m.all {
		if !m.refused(i) {
			n++
		}
	}
	return n
}

// movedPassword is the password of all of them; movedSecret and movedData are its hash as Keycloak writes it.
const (
	movedPassword = "correct horse 1"
	movedSecret   = `{"value":"04961CKXHgV0d9gMl9CFwnvHx4ZqGdqu1v62qnkZ/Go=","salt":"c2FsdHNhbHRzYWx0c2FsdA=="}`
	movedData     = `{"hashIterations":1000,"algorithm":"pbkdf2-sha256"}`
)

// newMoved writes an export with so many persons, one on each line.
func newMoved(t *testing.T, prefix string, all int) moved {
	t.Helper()
	m := moved{file: filepath.Join(t.TempDir(), prefix+".json"), prefix: prefix, all: all}
	f, err := os.Create(m.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, "{\"realm\":\"moved\",\"users\":[\n")
	type credential struct {
		Type   string `json:"type"`
		Secret string `json:"secretData"`
		Data   string `json:"credentialData"`
	}
	for i := range all {
		user := map[string]any{
			"id": m.id(i), "username": m.username(i), "firstName": "Given", "lastName": fmt.Sprintf("Family %d", i),
			"email":         fmt.Sprintf("%s-%d@moved.example", prefix, i),
			"emailVerified": true, "enabled": true, "groups": []string{"/moved"}, "attributes": map[string]any{"locale": []string{"en"}},
		}
		credentials := []credential{{"password", movedSecret, movedData}}
		if m.noted(i) {
			credentials = append(credentials, credential{"otp", `{"value":"seed"}`, "{}"})
		}
		user["credentials"] = credentials
		raw, err := json.Marshal(user)
		if err != nil {
			t.Fatal(err)
		}
		end := ",\n"
		if i == all-1 {
			end = "\n]}\n"
		}
		fmt.Fprintf(w, "%s%s", raw, end)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return m
}

// importCounts is the report of an import.
type importCounts struct {
	Created, Exists, Failed int

	Notes []struct{ Persons int }
}

// imports runs the command, and returns what it has counted and said.
func (s setup) imports(ctx context.Context, t *testing.T, m moved, flags ...string) (counts importCounts, said string, err error) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "report.json")
	said, err = s.Server.Command(ctx, "", append([]string{"import", "keycloak", m.file, "--report", report}, flags...)...)
	raw, missing := os.ReadFile(report)
	var whole struct{ Persons importCounts }
	if missing == nil {
		missing = json.Unmarshal(raw, &whole)
	}
	if missing != nil && ctx.Err() == nil && !strings.Contains(said, "stopped at line ") {
		t.Errorf("an import has no report: %v: %v: %s", missing, err, said)
	}
	return whole.Persons, said, err
}

// has reports whether a person is there.
func (s setup) has(ctx context.Context, name string) bool {
	return s.Server.Get(ctx, s.Server.Admin()+"/gatehouse/persons/show?person="+url.QueryEscape(name)).Status == http.StatusOK
}

// importKilled is IM: an import whose command is killed, and then whose server is killed, is complete after another
// run, with no one twice; a dry run writes nothing and says line by line who would not come.
func importKilled(t *testing.T, rep *report) {
	s := start(t, lab.Config{WebClients: 1}, 1)
	if !testing.Short() {
		s.importMany(t, rep)
	}
	m := newMoved(t, "killed", cycles(900, 20_000))
	bad := m.all - m.good()
	counts, said, err := s.imports(t.Context(), t, m, "--dry-run")
	if err == nil || counts.Created != m.good() || counts.Failed != bad || len(counts.Notes) != 1 || counts.Notes[0].Persons != bad {
		t.Errorf("a dry run counts %+v, want %d that would come and %d that would not: %v", counts, m.good(), bad, err)
	}
	for i := range m.all {
		line := fmt.Sprintf("line %d: ", i+2)
		if m.refused(i) && !strings.Contains(said, "\n"+line+"username ") || m.noted(i) &&
			!strings.Contains(said, fmt.Sprintf("%s%q: the authenticator app", line, m.username(i))) {
			t.Fatalf("a dry run says nothing of line %d: %.3000s", i+2, said)
		}
	}
	if s.has(t.Context(), m.username(0)) {
		t.Error("a dry run has written somebody")
	}

	ctx, kill := context.WithCancel(t.Context())
	s.once(ctx, t, m.username(m.all/4), kill)
	if _, said, err := s.imports(ctx, t, m); err == nil || ctx.Err() == nil {
		t.Fatalf("an import has ended before it was killed: %s", said)
	}
	came := s.moved(t, m)
	ctx, kill = context.WithCancel(t.Context())
	defer kill()
	s.once(ctx, t, m.username(m.all/2+3), s.Server.Kill)
	if _, said, err := s.imports(ctx, t, m); err == nil || !strings.Contains(said, "stopped at line ") {
		t.Fatalf("an import whose server was killed says %v: %.2000s", err, said)
	}
	s.restart(t)
	between := s.moved(t, m)
	counts, said, err = s.imports(t.Context(), t, m)
	if err == nil || counts.Created+counts.Exists != m.good() || counts.Exists != between || counts.Failed != bad {
		t.Errorf("the last run counts %+v, want %d persons in all, %d of them known, and %d refused: %v: %.2000s", counts,
			m.good(), between, bad, err, said)
	}
	if n := s.moved(t, m); n != m.good() {
		t.Errorf("%d persons have come, want %d", n, m.good())
	}
	b := s.Server.NewBrowser()
	defer b.Forget()
	_, challenge := lab.Challenge()
	a, at := b.Visit(t.Context(), s.Server.AuthorizeURL(lab.WebClient(0), challenge))
	if a, at = fillIn(t.Context(), b, a, at, m.username(m.all-1), movedPassword); !isSignedIn(at) {
		t.Errorf("the last of them does not sign in: %d at %s: %.500s", a.Status, at, a.Body)
	}
	rep.add("%d persons: %d there when the command was killed, %d when the server was, %d in the end, %d refused with their line",
		m.all, came, between, m.good(), bad)
}

// once calls a function as soon as someone is there.
func (s setup) once(ctx context.Context, t *testing.T, name string, then func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && !s.has(ctx, name) {
			lab.Pause(ctx, 2*time.Millisecond)
		}
		then()
	}()
	t.Cleanup(func() { <-done })
}

// moved returns how many persons of an export are there, each once and with the id of the export.
func (s setup) moved(t *testing.T, m moved) int {
	t.Helper()
	raw, err := s.Server.Command(t.Context(), "", "person", "list", "--match", m.prefix+"-", "--json")
	if err != nil {
		t.Fatalf("%v: %.1000s", err, raw)
	}
	var list []struct{ ID, Username string }
	if err := json.Unmarshal([]byte(raw), &list); err != nil {
		t.Fatalf("the list of persons: %v: %.1000s", err, raw)
	}
	ids := map[string]string{}
	for i := range m.all {
		ids[m.username(i)] = m.id(i)
	}
	for _, p := range list {
		if p.ID == "" || ids[p.Username] != p.ID {
			t.Errorf("%q has the id %s, or is there twice; the export says %q", p.Username, p.ID, ids[p.Username])
		}
		delete(ids, p.Username)
	}
	return len(list)
}

// importMany measures an import.
func (s setup) importMany(t *testing.T, rep *report) {
	t.Helper()
	m := newMoved(t, "many", 100_000)
	before, err := lab.CPU(s.Server.PID())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	counts, said, err := s.imports(t.Context(), t, m)
	took := time.Since(began)
	after, cpuErr := lab.CPU(s.Server.PID())
	if cpuErr != nil {
		t.Fatal(cpuErr)
	}
	if counts.Created != m.good() || counts.Failed != m.all-m.good() {
		t.Errorf("an import of %d persons counts %+v: %v", m.all, counts, err)
	}
	told := 0
	for line := range strings.Lines(said) {
		if strings.Contains(line, " %  ") && strings.Contains(line, " a second") {
			told++
		}
	}
	if told < int(took/(4*time.Second)) {
		t.Errorf("in %v an import has told its progress %d times", took, told)
	}
	rep.add("%d persons in %.1f s (a minute is the goal), %.0f a second, %.1f s of processor time of the server, progress told %d times",
		m.all, took.Seconds(), float64(m.all)/took.Seconds(), (after - before).Seconds(), told)
}
