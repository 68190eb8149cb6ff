package caddymodule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/goldentest"
	"github.com/gatehouse-id/gatehouse/internal/openapi"
)

// schema is a part of a schema of OpenAPI that has a place in a document.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any
	Format               string
	Enum                 []string
	Items                *schema
	Properties           map[string]schema
	Required             []string
	AdditionalProperties any
	Description          string
}

// content is a body.
type content struct {
	Content map[string]struct{ Schema schema }
}

type operation struct {
	Summary    string
	Security   *[]any
	Deprecated bool
	Parameters []struct {
		Name, In, Description string
		Required              bool
	}
	RequestBody *content
	Responses   map[string]struct {
		Description string
		content
	}
}

// TestOpenAPIDocuments writes docs/api, a document for each API: its operations and the types of their bodies.
func TestOpenAPIDocuments(t *testing.T) {
	t.Parallel()
	raw, err := openapi.Document("Gatehouse", openAPIVersion, "https://auth.example.com", operations())
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]map[string]operation
		Components struct{ Schemas map[string]schema }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	texts, used := map[string]*strings.Builder{}, map[string]map[string]bool{}
	for _, o := range operations() {
		b := texts[o.Tag]
		if b == nil {
			b = &strings.Builder{}
			texts[o.Tag], used[o.Tag] = b, map[string]bool{}
			fmt.Fprintf(b, "# API: %s\n\n`GET /api/openapi.json` of a server has the same for programs; [api.md](../api.md) has examples, and\n"+
				"[errors](../api.md#errors): besides those below each operation has 401, 403 and 503, and one with a body 413 and 415.\n", o.Tag)
		}
		described := doc.Paths[o.Path][strings.ToLower(o.Method)]
		described.write(b, o.Method+" "+o.Path, func(s schema) string { return typeOf(s, used[o.Tag]) })
	}
	documents := map[string]string{}
	for tag, b := range texts {
		writeTypes(b, doc.Components.Schemas, used[tag])
		documents[strings.ReplaceAll(strings.ToLower(tag), " ", "_")+".md"] = b.String()
	}
	goldentest.Documents(t, "../docs/api", documents)
}

// write writes the part about an operation.
func (o operation) write(b *strings.Builder, title string, name func(schema) string) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s.", title, strings.TrimSuffix(o.Summary, "."))
	if o.Security != nil {
		b.WriteString(" It needs no credentials.")
	}
	if o.Deprecated {
		b.WriteString(" Deprecated.")
	}
	b.WriteString("\n")
	if len(o.Parameters) > 0 {
		b.WriteString("\n| parameter | in | meaning |\n|---|---|---|\n")
	}
	for _, p := range o.Parameters {
		meaning := cell(p.Description)
		if p.Required && p.In != "path" {
			meaning = strings.TrimSpace(meaning + " (required)")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, p.In, meaning)
	}
	if o.RequestBody != nil {
		for _, c := range o.RequestBody.Content {
			fmt.Fprintf(b, "\nThe body is %s.\n", name(c.Schema))
		}
	}
	b.WriteString("\n| answer | meaning | body |\n|---|---|---|\n")
	for _, status := range slices.Sorted(maps.Keys(o.Responses)) {
		r := o.Responses[status]
		if status == "401" || status == "403" || status == "413" || status == "415" || status == "503" {
			continue // those of every operation
		}
		var body string
		for _, c := range r.Content {
			body = name(c.Schema)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", status, cell(r.Description), body)
	}
}

// writeTypes writes the named types of the operations, and those that their members have.
func writeTypes(b *strings.Builder, all map[string]schema, used map[string]bool) {
	heading := "\n## Types\n"
	for done := map[string]bool{}; ; {
		var next []string
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if !done[name] {
				next = append(next, name)
			}
		}
		if len(next) == 0 {
			return
		}
		for _, name := range next {
			done[name] = true
			fmt.Fprintf(b, "%s\n### %s\n\n", heading, name)
			heading = ""
			if len(all[name].Properties) == 0 {
				fmt.Fprintf(b, "%s.\n", typeOf(all[name], used))
				continue
			}
			b.WriteString("| member | type | |\n|---|---|---|\n")
			for _, member := range slices.Sorted(maps.Keys(all[name].Properties)) {
				p := all[name].Properties[member]
				note := cell(p.Description)
				if slices.Contains(all[name].Required, member) {
					note = strings.TrimSpace("required " + note)
				}
				fmt.Fprintf(b, "| `%s` | %s | %s |\n", member, typeOf(p, used), note)
			}
		}
	}
}

// typeOf names a type, and notes it among those that are used.
func typeOf(s schema, used map[string]bool) string {
	switch {
	case s.Ref != "":
		name := s.Ref[strings.LastIndex(s.Ref, "/")+1:]
		used[name] = true
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.Items != nil:
		return "list of " + typeOf(*s.Items, used)
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	}
	kind, _ := s.Type.(string)
	if list, ok := s.Type.([]any); ok { // it can be null
		kind = fmt.Sprint(list[0], " or null")
	}
	return strings.TrimSpace(cmp.Or(kind, "any value") + " " + s.Format)
}

func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}
