package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadCompose reads a compose file as docker compose does.
func loadCompose(t *testing.T, file string, env ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{file}, cli.WithName("gatehouse"), cli.WithEnv(env), cli.WithInterpolation(true))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(t.Context())
}

// TestCompose: each compose file is valid, names the image of a release, publishes on this machine alone what its
// Caddyfile serves, and hands over each secret that the Caddyfile reads.
func TestCompose(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../packaging/compose*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("compose files = %v, %v, want at least three", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			project, err := loadCompose(t, file, "DEMO_PASSWORD=secret-of-the-demo", "DATABASE_PASSWORD=secret-of-the-database",
				"GATEHOUSE_KEY=secret-of-the-records")
			if err != nil {
				t.Fatal(err)
			}
			gatehouse := project.Services["gatehouse"]
			if gatehouse.Image != "gatehouse:0.1.0" || !gatehouse.ReadOnly || !slices.Equal(gatehouse.CapDrop, []string{"ALL"}) {
				t.Errorf("image = %q, read-only %t, without the capabilities %v", gatehouse.Image, gatehouse.ReadOnly, gatehouse.CapDrop)
			}
			var caddyfile string
			for _, v := range gatehouse.Volumes {
				if v.Target == "/etc/caddy/Caddyfile" && v.ReadOnly {
					raw, err := os.ReadFile(v.Source)
					if err != nil {
						t.Fatal(err)
					}
					caddyfile = string(raw)
				}
			}
			var served, published []string
			for _, m := range regexp.MustCompile(`(?m)^http://localhost:(\d+) \{`).FindAllStringSubmatch(caddyfile, -1) {
				served = append(served, m[1])
			}
			for name, service := range project.Services {
				for _, p := range service.Ports {
					if name != "gatehouse" || p.HostIP != "127.0.0.1" {
						t.Errorf("%s publishes %s on %q", name, p.Published, p.HostIP)
					}
					published = append(published, p.Published)
				}
			}
			if len(served) < 2 || !slices.Equal(served, published) {
				t.Errorf("published ports = %v, and the Caddyfile serves %v", published, served)
			}
			for _, m := range regexp.MustCompile(`\{env\.([A-Z_]+)\}`).FindAllStringSubmatch(caddyfile, -1) {
				if v := gatehouse.Environment[m[1]]; v == nil || !strings.Contains(*v, "secret-of-the-") {
					t.Errorf("the Caddyfile reads %s, which the service does not have", m[1])
				}
			}
			for _, m := range regexp.MustCompile(`reverse_proxy (\w+):`).FindAllStringSubmatch(caddyfile, -1) {
				if _, there := project.Services[m[1]]; !there {
					t.Errorf("the Caddyfile leads to %s, which is not a service", m[1])
				}
			}
		})
	}
}

// TestComposeSecrets: nothing starts without each secret.
func TestComposeSecrets(t *testing.T) {
	t.Parallel()
	missing := map[string]string{
		"DEMO_PASSWORD": "the password of demo@example.com", "DATABASE_PASSWORD": "the password of the database",
		"GATEHOUSE_KEY": "the key of the records",
	}
	for file, needs := range map[string][]string{
		"compose.yaml": {"DEMO_PASSWORD"}, "compose.application.yaml": {"DEMO_PASSWORD"},
		"compose.postgres.yaml": {"DEMO_PASSWORD", "DATABASE_PASSWORD", "GATEHOUSE_KEY"},
	} {
		for i, name := range needs {
			var env []string
			for _, other := range slices.Delete(slices.Clone(needs), i, i+1) {
				env = append(env, other+"=secret-of-the-demo")
			}
			if _, err := loadCompose(t, "../packaging/"+file, env...); err == nil || !strings.Contains(err.Error(), missing[name]) {
				t.Errorf("%s without %s: %v, want an error with %q", file, name, err, missing[name])
			}
		}
	}
}
