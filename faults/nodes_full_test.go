package faults

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// nodesDiskFull is N10: the disk with the tables of the database fills under load, stays full, and is emptied.
func nodesDiskFull(t *testing.T, rep *report) {
	c := &nodes{rand: random()}
	var err error
	if c.db, err = lab.NewPostgres(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.db.Remove)
	img, err := NewImage(c.db.Dir, 96<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.db.Kill()
		if err := img.Unmount(); err != nil {
			t.Error(err)
		}
	})
	tables := filepath.Join(img.Mount, "tables")
	if err := c.db.KeepTablesIn(tables); err != nil {
		t.Fatal(err)
	}
	c.serve(t, []string{c.db.Address()}, "", "")
	ctx, one := t.Context(), c.list[0]
	good := one.Issue(ctx).Text("access_token")

	c.Begin(ctx)
	c.For(ctx, time.Second)
	if err := img.Fill(func(int64) {}); err != nil {
		t.Fatal(err)
	}
	late, ok := eventually(ctx, 60*time.Second, func() bool { return one.Issue(ctx).Status == http.StatusServiceUnavailable })
	if !ok {
		t.Fatalf("no write was refused on the full disk, with %d KiB free", img.Free()>>10)
	}
	reads := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end) && !t.Failed(); reads++ {
		for _, n := range c.list {
			if active, told := n.Introspect(ctx, good).Active(); !told || !active {
				t.Errorf("%s: introspection on the full disk: active %t, told %t", n.Address, active, told)
			}
			if a := n.Call(ctx, good); a.Status != http.StatusOK {
				t.Errorf("%s: protect on the full disk = %d", n.Address, a.Status)
			}
		}
	}
	a := one.Get(ctx, one.Issuer()+"/healthz")
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "free space") {
		t.Errorf("/healthz on the full disk = %d %s, want 503 with the reason", a.Status, a.Body)
	}
	if err := img.Empty(); err != nil {
		t.Fatal(err)
	}
	back := c.writes(t, c.list...)
	c.For(ctx, 500*time.Millisecond)
	c.Halt()
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, n := range append(c.list[:2:2], c.front) {
		if _, ok := eventually(ctx, 20*time.Second, func() bool { return n.Healthy(ctx) }); !ok {
			t.Errorf("%s is not healthy again", n.Address)
		}
	}
	c.Check(ctx, "after the full disk", true)
	rep.add("first 503 after %d ms, %d rounds of reads on the full disk, none failed, wrote again %d ms after there was room",
		late.Milliseconds(), reads, back.Milliseconds())
	c.report(t, rep)
}
