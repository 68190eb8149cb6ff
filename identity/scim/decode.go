package scim

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a body.
const (
	maxBody   = 1 << 20 // bytes
	maxDepth  = 12      // of nested values: a Bulk of PATCHes of complex values needs ten
	maxValues = 50_000  // values in one body
)

// readResource returns the resource in a request.
func (d *reader) readResource(w http.ResponseWriter, r *http.Request, t *resourceType) (object, error) {
	v, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	return d.resource(t, v)
}

// readBody returns the JSON value of a request. Its Content-Type must be that of JSON, which a page of
// another site cannot send without a preflight.
func readBody(w http.ResponseWriter, r *http.Request) (any, error) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != mediaType && kind != "application/json" || params["charset"] != "" &&
		!strings.EqualFold(params["charset"], "utf-8") {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Detail: "want Content-Type: " + mediaType}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		if errors.As(err, new(*http.MaxBytesError)) {
			return nil, &Error{Status: http.StatusRequestEntityTooLarge, Detail: "the body is larger than 1 MiB"}
		}
		return nil, &Error{Status: http.StatusBadRequest, Detail: "the body broke off", cause: err}
	}
	return parse(raw)
}

// parse reads one JSON value strictly: bounded depth and number of values, no member twice, whatever the case of its
// name, nothing after it. The names keep the case that they were sent in.
func parse(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, bad(invalidSyntax, "the body is not UTF-8")
	}
	p := &parser{dec: json.NewDecoder(bytes.NewReader(raw))}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err != nil {
		if e := new(Error); errors.As(err, &e) {
			return nil, e
		}
		return nil, &Error{Status: http.StatusBadRequest, Type: invalidSyntax, Detail: "the body is not JSON", cause: err}
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bad(invalidSyntax, "the body has more than one JSON value")
	}
	return v, nil
}

type parser struct {
	dec    *json.Decoder
	values int
}

func (p *parser) value(depth int) (any, error) {
	if p.values++; depth > maxDepth || p.values > maxValues {
		return nil, bad(invalidSyntax, "the body is nested too deeply or has too many values")
	}
	t, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return p.object(depth)
	case json.Delim('['):
		list := []any{}
		for p.dec.More() {
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := p.dec.Token()
		return list, err
	}
	return t, nil
}

func (p *parser) object(depth int) (any, error) {
	o, seen := object{}, map[string]bool{}
	for p.dec.More() {
		t, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if seen[lower(name)] {
			return nil, bad(invalidSyntax, "an object has a member twice")
		}
		seen[lower(name)] = true
		if o[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := p.dec.Token()
	return o, err
}

// members returns the members of a message by the names that it may have, and refuses others. (RFC 7643 2.1: names have
// no case)
func members(v any, names ...string) (object, error) {
	o, ok := v.(object)
	if !ok {
		return nil, bad(invalidSyntax, "want a JSON object")
	}
	out := object{}
	for name, v := range o {
		i := slices.IndexFunc(names, func(n string) bool { return equalFold(n, name) })
		if i < 0 {
			return nil, bad(invalidSyntax, "the message has a member that is not known")
		}
		out[names[i]] = v
	}
	return out, nil
}

// message is members for a message that must name its schema.
func message(v any, urn string, names ...string) (object, error) {
	o, err := members(v, append(names, "schemas")...)
	if err != nil {
		return nil, err
	}
	list, _ := o["schemas"].([]any)
	named := func(v any) bool {
		s, _ := v.(string)
		return equalFold(s, urn) || equalFold(s, strings.Replace(urn, ":ietf:params", "", 1)) // as drafts spelled it
	}
	if !slices.ContainsFunc(list, named) {
		return nil, bad(invalidSyntax, "schemas does not say "+urn)
	}
	return o, nil
}

// reader reads resources and values of requests, and keeps the names of what it leaves out: attributes that are not
// known, and values of another type than their attribute's. (docs/decisions/scim.md#values-of-other-systems)
type reader struct{ left []string }

// omit leaves out what a path names.
func (d *reader) omit(path string) {
	if len(path) > maxName || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		path = "(a name that cannot be repeated)"
	}
	if !slices.Contains(d.left, path) && len(d.left) < maxLeft {
		d.left = append(d.left, path)
	}
}

const (
	maxName = 128 // bytes of a name that is repeated
	maxLeft = 50  // names in an answer
)

// vitals are the attributes that decide who the person is, or which persons a group has.
var vitals = []string{
	"schemas", "userName", "active", "password", ourUser + ":" + emailVerified, ourUser + "." + emailVerified, "members", ourGroup,
}

// vital reports whether a resource is no use without the attribute of a path.
func vital(path string) bool {
	return slices.ContainsFunc(vitals, func(name string) bool {
		rest, ok := strings.CutPrefix(path, name)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == ':')
	})
}

// unfit is the refusal of a value that can be left out unless it is vital.
func unfit(detail string) *Error {
	e := bad(invalidValue, detail)
	e.unfit = true
	return e
}

// excuse leaves out what a path names, or returns the error if it is another one or the path is vital.
func (d *reader) excuse(err error, path string) error {
	e := new(Error)
	if !errors.As(err, &e) || !e.unfit {
		return err
	}
	if vital(path) {
		e.unfit = false // what has the attribute cannot be left out either
		return err
	}
	d.omit(path)
	return nil
}

// resource returns a resource of a request with the names and types of its schema. Read-only attributes are left out
// silently (RFC 7644 3.3, 3.5.1).
func (d *reader) resource(t *resourceType, v any) (object, error) {
	o, ok := v.(object)
	if !ok {
		return nil, bad(invalidSyntax, "want a JSON object")
	}
	named := make(object, len(o))
	for name, v := range o {
		if name = t.canonical(name); named[name] != nil {
			return nil, bad(invalidSyntax, "an object has a member twice")
		}
		named[name] = v
	}
	out, err := d.object(t.root, named, "")
	if err != nil {
		return nil, err
	}
	if err := t.checkSchemas(out); err != nil {
		return nil, err
	}
	for _, a := range t.root {
		if a.required && out[a.name] == nil {
			return nil, bad(invalidValue, a.name+" is required")
		}
	}
	return out, nil
}

// checkSchemas: a resource names its core schema, and no core schema of another kind of resource. Extensions of others
// are ignored: Microsoft Entra names one of its own at each group. (RFC 7643 3)
func (t *resourceType) checkSchemas(o object) error {
	list, _ := o["schemas"].([]any)
	core := false
	for _, v := range list {
		name, _ := v.(string)
		name = t.canonical(name)
		isCore := equalFold(name, t.core.id)
		core = core || isCore
		known := isCore || equalFold(name, enterprise) || slices.ContainsFunc(t.extensions, func(s *schema) bool { return equalFold(name, s.id) })
		if !known && !foreign(name) {
			return bad(invalidValue, "schemas names one that is not of this resource")
		}
	}
	if !core {
		return bad(invalidSyntax, "schemas does not say "+t.core.id)
	}
	return nil
}

// oldNames are the schemas as SCIM 1.1 and drafts of SCIM 2.0 named them, of which OneLogin sends some.
var oldNames = regexp.MustCompile(`(?i)^urn:(?:ietf:params:)?scim:schemas:(core|extension:enterprise):[12]\.0(?::(user|group))?(:|$)`)

// canonical returns the name of a schema, or the path of an attribute, with the present name of its schema.
func (t *resourceType) canonical(path string) string {
	m := oldNames.FindStringSubmatch(path)
	if m == nil {
		return path
	}
	id := t.core.id
	switch {
	case !strings.EqualFold(m[1], "core"):
		id = enterprise
	case strings.EqualFold(m[2], "user"):
		id = coreUser
	case strings.EqualFold(m[2], "group"):
		id = coreGroup
	}
	return id + m[3] + path[len(m[0]):]
}

var uri = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$`)

// foreign reports whether a name belongs to an extension schema of someone else, or to an attribute in one. No
// attribute here has a colon in its name.
func foreign(name string) bool {
	if len(name) > maxFilter || !uri.MatchString(name) || strings.HasPrefix(lower(name), "urn:ietf:params:scim:schemas:core:") {
		return false
	}
	return !slices.ContainsFunc(allSchemas(), func(s *schema) bool {
		return len(name) >= len(s.id) && equalFold(name[:len(s.id)], s.id) && (len(name) == len(s.id) || name[len(s.id)] == ':')
	})
}

func (d *reader) object(in []*attribute, o object, path string) (object, error) {
	out := object{}
	for name, v := range o {
		a := find(in, name)
		if a == nil {
			d.omit(path + name)
			continue
		}
		if a.mutability == readOnly || v == nil {
			continue // null is no value (RFC 7643 2.5)
		}
		v, err := d.value(a, v, path+a.name)
		if err != nil {
			if a.required && path == "" {
				return nil, err
			}
			if err := d.excuse(err, path+a.name); err != nil {
				return nil, err
			}
			continue
		}
		if v != nil {
			out[a.name] = v
		}
	}
	for _, a := range in {
		if a.required && path != "" && out[a.name] == nil {
			return nil, unfit(path + a.name + " is required")
		}
	}
	return out, nil
}

// unknown refuses an unknown member, and repeats its name if that is a possible name.
func unknown(path, name string) string {
	if len(name) > maxName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "a member is not known"
	}
	return path + name + " is not an attribute of this resource"
}

// value returns a value with the names and types of its attribute. nil: no value.
func (d *reader) value(a *attribute, v any, path string) (any, error) {
	list, isList := v.([]any)
	switch {
	case v == nil:
		return nil, nil //nolint:nilnil // null is no value (RFC 7643 2.5)
	case a.multi && !isList:
		list = []any{v}
	case !a.multi && isList && a.typ() == typeComplex && len(list) == 1:
		return d.value(a, list[0], path) // as Microsoft Entra sends a manager
	case !a.multi && isList:
		return nil, unfit(path + " has one value, not several")
	case !a.multi:
		return d.one(a, v, path)
	}
	out := make([]any, 0, len(list))
	for _, v := range list {
		if v == nil {
			continue
		}
		one, err := d.one(a, v, path)
		if err != nil {
			if err := d.excuse(err, path); err != nil {
				return nil, err
			}
			continue
		}
		if one != nil {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return nil, nil //nolint:nilnil // an empty list is no value (RFC 7643 2.5)
	}
	return out, nil
}

func (d *reader) one(a *attribute, v any, path string) (any, error) {
	switch a.typ() {
	case typeComplex:
		o, ok := v.(object)
		if s, isText := v.(string); isText && a.find("value") != nil {
			o, ok = object{"value": s}, true // a plain value stands for the object, as a large directory sends a manager
		}
		if !ok {
			return nil, unfit(path + " wants an object")
		}
		out, err := d.object(a.sub, o, path+".")
		if err != nil || len(out) == 0 {
			return nil, err
		}
		return out, nil
	case typeBoolean:
		switch b := v.(type) {
		case bool:
			return b, nil
		case string: // as a large directory sends them
			if strings.EqualFold(b, "true") || strings.EqualFold(b, "false") {
				return strings.EqualFold(b, "true"), nil
			}
		}
		return nil, unfit(path + " wants true or false")
	}
	s, ok := v.(string)
	if n, isNumber := v.(json.Number); isNumber && !vital(path) {
		s, ok = n.String(), true // such as an employee number
	}
	if !ok {
		return nil, unfit(path + " wants a text")
	}
	if a.typ() == typeBinary {
		if _, err := base64.StdEncoding.DecodeString(s); err != nil {
			return nil, unfit(path + " wants Base64")
		}
	}
	if s == "" {
		return nil, nil //nolint:nilnil // no value
	}
	return s, nil
}
