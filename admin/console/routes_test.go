package console

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
)

var update = flag.Bool("update", false, "write testdata/routes.txt")

// routesFile lists every route of the console. The tests that look at the whole of it, also those in other packages, go
// by this list, so none of them passes over a new screen.
const routesFile = "testdata/routes.txt"

// TestRoutes holds the list of routes against the screens.
func TestRoutes(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for _, route := range newHarness(t).routes() {
		list.WriteString(route + "\n")
	}
	if *update {
		if err := os.WriteFile(routesFile, []byte(list.String()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(routesFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != list.String() {
		t.Errorf("%s is not what the screens are: go test . -update\n%s", routesFile, list.String())
	}
}

// routes are the paths of all screens and acts, with {id} for what they are about.
func (h *harness) routes() (out []string) {
	for _, s := range h.console.screens {
		out = append(out, layout.Root+s.Path)
		for _, a := range s.Acts {
			out = append(out, layout.Root+s.Path+"/"+a.Name)
		}
	}
	slices.Sort(out)
	return out
}

// routeOf returns the route that a path belongs to: the one with the fewest parts that stand for anything. "": none
func routeOf(routes []string, path string) (found string) {
	path, _, _ = strings.Cut(path, "?")
	for _, route := range routes {
		alike := slices.EqualFunc(strings.Split(route, "/"), strings.Split(path, "/"),
			func(of, at string) bool { return of == at || of == "{id}" && at != "" })
		if alike && (found == "" || strings.Contains(found, "{id}")) {
			found = route
		}
	}
	return found
}

// isScreen reports whether a path is that of a screen, and not of an act.
func (h *harness) isScreen(path string) bool {
	return slices.ContainsFunc(h.console.screens, func(s *layout.Screen) bool { return s.Path == path })
}
