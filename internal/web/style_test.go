package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	braces    = regexp.MustCompile(`\{\{.*?\}\}`)
	classAttr = regexp.MustCompile(`class="([^"]*)"`)
	classRule = regexp.MustCompile(`\.([a-z][a-z0-9_-]*)`)
	quoted    = regexp.MustCompile(`"[^"]*"`)
)

// kinds are the classes that templates put together from parts.
var kinds = []string{"bad", "good", "warn", "info"}

// TestClasses checks that each class of a template is in the stylesheet, and each class of the stylesheet in a
// template.
func TestClasses(t *testing.T) {
	t.Parallel()
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]string{}
	for _, e := range entries {
		raw, err := templateFiles.ReadFile("templates/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range classAttr.FindAllStringSubmatch(string(raw), -1) {
			for _, class := range strings.Fields(braces.ReplaceAllString(m[1], " ")) {
				used[class] = e.Name()
			}
		}
	}
	styled := map[string]bool{}
	for _, m := range classRule.FindAllStringSubmatch(quoted.ReplaceAllString(stylesheet+consoleSheet, ""), -1) {
		styled[m[1]] = true
	}
	for class, file := range used {
		if !styled[class] {
			t.Errorf("%s: class %q is not in the stylesheet", file, class)
		}
	}
	for class := range styled {
		if used[class] == "" && !slices.Contains(kinds, class) {
			t.Errorf("gatehouse.css: no template has the class %q", class)
		}
	}
}

// TestColoursHaveNames checks that the stylesheet takes its colours from the palette, where their contrast is computed.
// White and black are for QR codes, which readers need in any scheme. The one shadow is not a text colour.
func TestColoursHaveNames(t *testing.T) {
	t.Parallel()
	for _, found := range regexp.MustCompile(`#[0-9a-f]{3,8}\b|(?:rgb|hsl|oklab|oklch)a?\([^)]*\)`).FindAllString(stylesheet+consoleSheet, -1) {
		if !slices.Contains([]string{"#fff", "#000", "rgb(15 20 30/.06)"}, found) {
			t.Errorf("gatehouse.css has the colour %s, want one of the palette", found)
		}
	}
	known := []string{"--accent", "--accent-ink"}
	for _, c := range light {
		known = append(known, "--"+c.name)
	}
	for _, found := range regexp.MustCompile(`var\((--[a-z-]+)`).FindAllStringSubmatch(stylesheet+consoleSheet, -1) {
		if !slices.Contains(known, found[1]) {
			t.Errorf("gatehouse.css has %s, which the palette does not", found[1])
		}
	}
}

// TestDirections checks that the layout also works for languages that are written from right to left.
func TestDirections(t *testing.T) {
	t.Parallel()
	for _, physical := range []string{
		"margin-left", "margin-right", "padding-left", "padding-right", "text-align:left", "text-align:right",
		"border-left", "border-right", "float:",
	} {
		if strings.Contains(stylesheet+consoleSheet, physical) {
			t.Errorf("gatehouse.css has %s, want a logical property, which is right in languages that are written from the right too", physical)
		}
	}
}
