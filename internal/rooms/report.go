package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// report returns both tables for the packages below the given directories, all when none is given.
func (t *tree) report(below []string) string {
	var chosen []*room
	for _, dir := range t.order() {
		fits := func(b string) bool { return dir == b || strings.HasPrefix(dir, b+"/") }
		if len(below) == 0 || slices.ContainsFunc(below, fits) {
			chosen = append(chosen, t.rooms[dir])
		}
	}
	users := map[string]int{}
	for _, r := range t.rooms {
		for of := range r.borders {
			users[of]++
		}
	}
	var b strings.Builder
	b.WriteString("| package | lines | files | exported types and values | exported functions and methods | uses packages | used by |\n")
	b.WriteString("|---|--:|--:|--:|--:|--:|--:|\n")
	var sum room
	files, borders, names, references := 0, 0, 0, 0
	for _, r := range chosen {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d |\n", r.dir, r.lines, len(r.files), r.values, r.funcs, len(r.borders), users[r.dir])
		sum.lines, sum.values, sum.funcs = sum.lines+r.lines, sum.values+r.values, sum.funcs+r.funcs
		files += len(r.files)
		borders += len(r.borders)
		for _, u := range r.borders {
			names, references = names+len(u.names), references+u.references
		}
	}
	fmt.Fprintf(&b, "| %d packages | %d | %d | %d | %d | %d | |\n", len(chosen), sum.lines, files, sum.values, sum.funcs, borders)
	b.WriteString("\n| package | what it uses of others: distinct names / references |\n|---|---|\n")
	for _, r := range chosen {
		if len(r.borders) > 0 {
			fmt.Fprintf(&b, "| %s | %s |\n", r.dir, r.describeBorders())
		}
	}
	fmt.Fprintf(&b, "| %d borders | %d / %d |\n", borders, names, references)
	return b.String()
}

// describeBorders lists the packages that a room uses, the busiest border first.
func (r *room) describeBorders() string {
	dirs := slices.SortedFunc(maps.Keys(r.borders), func(x, y string) int {
		if d := len(r.borders[y].names) - len(r.borders[x].names); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	out := make([]string, len(dirs))
	for i, dir := range dirs {
		out[i] = fmt.Sprintf("%s %d/%d", dir, len(r.borders[dir].names), r.borders[dir].references)
	}
	return strings.Join(out, ", ")
}
