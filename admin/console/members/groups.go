package members

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Group is a part of a long form.
type Group struct {
	// Name is the end of its message, console.group.NAME. Its fields fold below it. Empty: they do not fold.
	Name string
	// Fields are the beginnings of the names of its fields. nil: those that no other group has
	Fields []string
}

// Grouped puts the fields of a form into the order of its groups, of which one has no Fields.
func Grouped(groups []Group, fields []web.Field) {
	rest := slices.IndexFunc(groups, func(g Group) bool { return g.Fields == nil })
	place := func(f web.Field) int {
		i := slices.IndexFunc(groups, func(g Group) bool {
			return slices.ContainsFunc(g.Fields, func(begin string) bool { return strings.HasPrefix(f.Name, begin) })
		})
		if i < 0 {
			return rest
		}
		return i
	}
	slices.SortStableFunc(fields, func(a, b web.Field) int { return cmp.Compare(place(a), place(b)) })
	for i := range fields {
		if name := groups[place(fields[i])].Name; name != "" {
			fields[i].Group = "console.group." + name
		}
	}
}
