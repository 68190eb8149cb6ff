package e2e

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// form is a form on a page.
type form struct {
	Page, Action, Method string
	Fields               []formField
}

type formField struct{ Name, Type, Value string }

func (f form) values() url.Values {
	v := url.Values{}
	for _, x := range f.Fields {
		if x.Type != "checkbox" && x.Type != "radio" || x.Value != "" {
			v.Set(x.Name, x.Value)
		}
	}
	return v
}

// asksFor reports whether the form has fields to type in.
func (f form) asksFor() bool {
	return strings.EqualFold(f.Method, "post") && slices.ContainsFunc(f.Fields, func(x formField) bool { return samples[x.Type] != "" })
}

// names returns the form's field names.
func (f form) names() string {
	var out []string
	for _, x := range f.Fields {
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}

// samples are values for fields by type, in addition to those by autocomplete.
var samples = map[string]string{
	"text": "123456", "password": "never the password 1", "email": "nobody@example.com", "tel": "+31 20 123 4567", "search": "x",
	"url":  "https://example.com/",
	"date": "1990-05-04", "number": "1", "textarea": "x",
}

// script fills in the form with these fields, and sends it without the browser's own checks.
func (f form) script(filled bool) string {
	values := map[string]string{}
	for _, x := range f.Fields {
		if sample := samples[x.Type]; sample != "" {
			values[x.Name] = ""
			if filled {
				values[x.Name] = sample
			}
		}
	}
	return f.send(values)
}

// send fills in the form with these fields with values, and sends it.
func (f form) send(values map[string]string) string {
	raw, _ := json.Marshal(values) // strings always marshal
	return `(() => {
		const form = [...document.forms].find(f => [...f.elements].filter(e => e.name).map(e => e.name).join(' ') === ` + quote(f.names()) + `);
		for (const [name, value] of Object.entries(` + string(raw) + `)) form.elements[name].value = value;
		form.noValidate = true;
		form.requestSubmit(form.querySelector('button:not([type=button]),input[type=submit]'));
	})()`
}

// readForms reads the forms of the page.
func readForms(b *tab) []form {
	b.t.Helper()
	return eval[[]form](b, `[...document.forms].map(f => ({
		Page: location.href, Action: f.action, Method: f.getAttribute('method') ?? 'get',
		Fields: [...f.elements].filter(e => e.name).map(e => ({Name: e.name, Type: e.type, Value: e.value})),
	}))`)
}
