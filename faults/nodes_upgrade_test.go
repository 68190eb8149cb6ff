package faults

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// olderVersion is the first one whose nodes can be upgraded one after the other.
const olderVersion = "dd1590bc"

// rollingUpgrade is N9: nodes of an earlier version, of this one and of the next one work side by side on a database.
// Once the upgrade is finished, the older ones are refused.
func rollingUpgrade(t *testing.T, rep *report) {
	ctx := t.Context()
	begin := time.Now()
	older := buildOf(t, olderVersion, nil)
	next := buildOf(t, "HEAD", nextFormat)
	rep.add("two versions built in %d s", int(time.Since(begin).Seconds()))

	db, err := lab.NewPostgres()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Remove)
	echo, err := lab.NewEcho()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(echo.Close)
	storage := fmt.Sprintf("storage postgres postgres://gatehouse@%s/gatehouse?sslmode=disable", db.Address())
	first, err := lab.New(lab.Config{Binary: older, Dir: t.TempDir(), Address: "127.0.0.2", Storage: storage, Echo: echo.Addr, WebClients: 1})
	if err != nil {
		t.Fatal(err)
	}
	run := func(n *lab.Server) {
		t.Helper()
		t.Cleanup(n.Kill)
		if _, err := n.StartReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
	node := func(binary, address string) *lab.Server {
		t.Helper()
		n, err := first.Node(t.TempDir(), address, storage)
		if err != nil {
			t.Fatal(err)
		}
		n.Binary = binary
		run(n)
		return n
	}
	run(first)
	second := node(binary(t), "127.0.0.3")
	third := node(next, "127.0.0.4")
	for _, way := range [][2]*lab.Server{{first, second}, {second, first}, {second, third}, {third, second}, {first, third}, {third, first}} {
		acrossNodes(t, way[0], way[1])
	}
	rep.add("6 sign-ins across versions")

	out, err := third.Command(ctx, "", "upgrade", "finish")
	if err == nil || !strings.Contains(out, "older version still runs") {
		t.Errorf("upgrade finish beside older versions = %s, %v", out, err)
	}
	for _, n := range []*lab.Server{first, second} {
		if err := n.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if _, gone := n.WaitExit(30 * time.Second); !gone {
			t.Fatalf("%s does not end", n.Address)
		}
	}
	if out, err := third.Command(ctx, "", "upgrade", "finish"); err != nil || !strings.Contains(out, "format") {
		t.Errorf("upgrade finish = %s, %v", out, err)
	}
	for _, n := range []*lab.Server{first, second} {
		before := len(n.LogText())
		if err := n.Start(); err != nil {
			t.Fatal(err)
		}
		if _, gone := n.WaitExit(30 * time.Second); !gone {
			t.Errorf("the older version at %s starts after the upgrade was finished", n.Address)
		} else if said := n.LogText()[before:]; !strings.Contains(said, "a newer version of Gatehouse has written this storage") {
			t.Errorf("the older version at %s does not say why it does not start: %.600s", n.Address, said)
		}
	}
	if a := third.Issue(ctx); a.Status != http.StatusOK {
		t.Errorf("the new version after the upgrade = %d %s %v", a.Status, a.Body, a.Err)
	}
	rep.add("finished by the next version, and both older ones refused at their start")
}

// acrossNodes: a sign-in begins on one node and ends on the other, and what the other gives counts on both.
func acrossNodes(t *testing.T, here, there *lab.Server) {
	t.Helper()
	ctx, client := t.Context(), lab.WebClient(0)
	between := fmt.Sprintf("from %s to %s", here.Address, there.Address)
	browser := here.NewBrowser()
	verifier, challenge := lab.Challenge()
	page, at := browser.Visit(ctx, here.AuthorizeURL(client, challenge))
	end, to, err := browser.At(there).FillIn(ctx, page, at)
	if err != nil {
		t.Fatalf("%s: %v", between, err)
	}
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("code") == "" {
		t.Fatalf("%s: the sign-in ended at %s with %d %.300s", between, to, end.Status, end.Body)
	}
	a := here.Redeem(ctx, client, u.Query().Get("code"), verifier)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: the code = %d %s", between, a.Status, a.Body)
	}
	b := there.Refresh(ctx, client, a.Text("refresh_token"))
	if b.Status != http.StatusOK {
		t.Errorf("%s: the refresh token = %d %s", between, b.Status, b.Body)
	}
	if a := here.Revoke(ctx, client, b.Text("refresh_token")); a.Status != http.StatusOK {
		t.Errorf("%s: Revoke = %d %s", between, a.Status, a.Body)
	}
	for _, n := range []*lab.Server{here, there} {
		if active, told := n.Introspect(ctx, b.Text("access_token")).Active(); active || !told {
			t.Errorf("%s: at %s a revoked token is active: %t, told: %t", between, n.Address, active, told)
		}
		if _, _, a := browser.At(n).Code(ctx, client); a.Err != nil {
			t.Errorf("%s: the session at %s: %v", between, n.Address, a.Err)
		}
	}
}

// buildOf builds the program of a commit of this repository, changed.
func buildOf(t *testing.T, commit string, change func(t *testing.T, dir string)) (program string) {
	t.Helper()
	if shallow := output(t, "git", "-C", "..", "rev-parse", "--is-shallow-repository"); shallow == "true" {
		t.Fatal("this clone has no history, and the fault needs an earlier version: git fetch --unshallow")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree.tar")
	output(t, "git", "-C", "..", "archive", "--format=tar", "-o", tree, commit)
	output(t, "tar", "-C", dir, "-xf", tree)
	if change != nil {
		change(t, dir)
	}
	program = filepath.Join(dir, "gatehouse-of-"+commit)
	output(t, "go", "build", "-C", dir, "-o", program, "./cmd/gatehouse")
	return program
}

// nextFormat makes a version of which the form of the records is newer.
func nextFormat(t *testing.T, dir string) {
	t.Helper()
	file := filepath.Join(dir, "internal", "cluster", "identity.go")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	is := regexp.MustCompile(`(?m)^const format = (\d+)$`).FindSubmatch(raw)
	if is == nil {
		t.Fatalf("%s does not say the format", file)
	}
	n, err := strconv.Atoi(string(is[1]))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), string(is[0]), fmt.Sprintf("const format = %d", n+1), 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
