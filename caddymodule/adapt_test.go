package caddymodule_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/google/go-cmp/cmp"

	_ "github.com/gatehouse-id/gatehouse/caddymodule"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const separator = "----------\n"

// TestAdaptGolden holds each file of testdata/adapt: a Caddyfile above the line, the JSON or the error below it.
func TestAdaptGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(raw), separator)
			got, err := servertest.Adapt(t, input)
			good := !strings.HasPrefix(filepath.Base(file), "bad_") && !strings.HasPrefix(filepath.Base(file), "later_")
			switch {
			case err != nil && good:
				t.Fatalf("Adapt failed: %v", err)
			case err == nil && !good:
				t.Fatal("Adapt took what it must refuse")
			case err != nil:
				got = err.Error()
				if !strings.Contains(got, "Caddyfile:") {
					t.Errorf("error names no file and line: %s", got)
				}
			}
			got += "\n"
			if *update {
				if err := os.WriteFile(file, []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Adapt differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}
