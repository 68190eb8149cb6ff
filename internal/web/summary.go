package web

import (
	"cmp"
	"html/template"
)

// fieldsOf returns the fields of a page, in their order.
func fieldsOf(data any) []Field {
	switch d := data.(type) {
	case Form:
		return d.Fields
	case Push:
		return d.Fields
	case Invitation:
		return d.Fields
	case InvitationCheck:
		return d.Fields
	case Console:
		return d.fields()
	case Dashboard:
		var out []Field
		for _, p := range d.Parts {
			if p.Form != nil {
				out = append(out, p.Form.Fields...)
			}
		}
		return out
	case interface{ Fields() []Field }:
		return d.Fields()
	case interface{ Field() Field }:
		return []Field{d.Field()}
	}
	return nil
}

// complaint is a line of the summary: a link to a field, with its problem.
type complaint struct {
	ID, Label string
	Problem   template.HTML
}

// Summary returns the problems of the fields, for the top of a page on which they could be out of sight. A page with a
// single field needs none: that field has the focus.
//
//	{{template "summary" .}}
func (f *frame) Summary() (out []complaint) {
	fields := fieldsOf(f.Data)
	if len(fields) < 2 {
		return nil
	}
	for _, in := range fields {
		if in.Problem != "" {
			out = append(out, complaint{cmp.Or(in.ID, in.Name), f.label(in), f.Rich(Text{in.Problem, in.ProblemFill})})
		}
	}
	return out
}
