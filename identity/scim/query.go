package scim

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const (
	defaultCount = 100
	maxCount     = 500 // resources of one page
)

// query are the parameters of a list or search. (RFC 7644 3.4.2)
type query struct {
	filter     filter // nil: all
	sortBy     *attribute
	sortSub    *attribute
	descending bool
	start      int // from 1
	count      int
	selection
}

// page is a part of what a query finds.
type page struct {
	total     int
	resources []object
}

// listBody is a list of resources. (RFC 7644 3.4.2)
type listBody struct {
	Schemas      []string `json:"schemas"`
	TotalResults int      `json:"totalResults"`
	ItemsPerPage int      `json:"itemsPerPage"`
	StartIndex   int      `json:"startIndex"`
	Resources    []object `json:"Resources"`
}

func (p *page) write(w http.ResponseWriter, q *query) {
	body := listBody{[]string{listMessage}, p.total, len(p.resources), q.start, make([]object, 0, len(p.resources))}
	for _, o := range p.resources {
		body.Resources = append(body.Resources, q.project(o))
	}
	write(w, http.StatusOK, body)
}

// queryOfURL reads the parameters of a GET.
func queryOfURL(t *resourceType, r *http.Request) (*query, error) {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad(invalidSyntax, "the query of the URL cannot be read")
	}
	for _, name := range []string{"filter", "sortBy", "sortOrder", "startIndex", "count"} {
		if len(v[name]) > 1 {
			return nil, bad(invalidValue, name+" is there twice")
		}
	}
	q := &query{start: 1, count: defaultCount}
	if q.selection, err = selectionOfQuery(t, v); err != nil {
		return nil, err
	}
	for name, to := range map[string]*int{"startIndex": &q.start, "count": &q.count} {
		if s := v.Get(name); s != "" {
			if *to, err = strconv.Atoi(s); err != nil {
				return nil, bad(invalidValue, name+" wants a whole number")
			}
		}
	}
	return q, q.complete(t, v.Get("filter"), v.Get("sortBy"), v.Get("sortOrder"))
}

// queryOfBody reads a SearchRequest. (RFC 7644 3.4.3)
func queryOfBody(t *resourceType, w http.ResponseWriter, r *http.Request) (*query, error) {
	v, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	m, err := message(v, searchMessage, "attributes", "excludedAttributes", "filter", "sortBy", "sortOrder", "startIndex", "count")
	if err != nil {
		return nil, err
	}
	q := &query{start: 1, count: defaultCount}
	lists := map[string][]string{}
	for _, name := range []string{"attributes", "excludedAttributes"} {
		list, ok := m[name].([]any)
		if m[name] != nil && !ok {
			return nil, bad(invalidValue, name+" wants a list")
		}
		for _, v := range list {
			s, ok := v.(string)
			if !ok {
				return nil, bad(invalidValue, name+" wants texts")
			}
			lists[name] = append(lists[name], s)
		}
	}
	if q.selection, err = selectionOf(t, lists["attributes"], lists["excludedAttributes"]); err != nil {
		return nil, err
	}
	for name, to := range map[string]*int{"startIndex": &q.start, "count": &q.count} {
		if m[name] == nil {
			continue
		}
		n, ok := m[name].(json.Number)
		if *to, err = strconv.Atoi(n.String()); err != nil || !ok {
			return nil, bad(invalidValue, name+" wants a whole number")
		}
	}
	var texts [3]string
	for i, name := range []string{"filter", "sortBy", "sortOrder"} {
		s, ok := m[name].(string)
		if m[name] != nil && !ok {
			return nil, bad(invalidValue, name+" wants a text")
		}
		texts[i] = s
	}
	return q, q.complete(t, texts[0], texts[1], texts[2])
}

// complete checks the query and brings numbers into their bounds. (RFC 7644 3.4.2.4)
func (q *query) complete(t *resourceType, filter, sortBy, sortOrder string) (err error) {
	q.start, q.count = max(q.start, 1), min(max(q.count, 0), maxCount)
	if strings.TrimSpace(filter) != "" {
		if q.filter, err = parseFilter(t, filter); err != nil {
			return err
		}
	}
	switch lower(sortOrder) {
	case "", "ascending":
	case "descending":
		q.descending = true
	default:
		return bad(invalidValue, "sortOrder wants ascending or descending")
	}
	if sortBy == "" {
		return nil
	}
	a, sub, ok := t.resolve(sortBy)
	if !ok || a.returned == returnedNever {
		return bad(invalidPath, "sortBy names no attribute that is known")
	}
	if sub == nil && a.typ() == typeComplex {
		if sub = a.find("value"); sub == nil { // RFC 7644 3.4.2.3: the primary value
			return bad(invalidPath, "sortBy names an attribute with sub-attributes")
		}
	}
	if sub != nil && (sub.typ() == typeComplex || sub.typ() == typeBinary) {
		return bad(invalidPath, "sortBy names an attribute that has no order")
	}
	q.sortBy, q.sortSub = a, sub
	return nil
}

// key returns the sort key of a resource: the primary value of several, otherwise the first. (RFC 7644 3.4.2.3)
func (q *query) key(o object) (key string, ok bool) {
	in := o
	if q.sortSub != nil && q.sortBy.multi {
		for _, one := range each(o, q.sortBy.name) {
			if one["primary"] == true {
				in = object{q.sortBy.name: one}
			}
		}
	}
	leaf := q.sortBy
	if q.sortSub != nil {
		leaf = q.sortSub
	}
	for _, v := range valuesOf(in, q.sortBy, q.sortSub) {
		switch v := v.(type) {
		case string:
			return leaf.folded(v), true
		case bool:
			return strconv.FormatBool(v), true
		}
	}
	return "", false
}
