package scim

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const maxBulk = 500 // operations of one Bulk

// bulkOperation is one operation of a Bulk. (RFC 7644 3.7)
type bulkOperation struct {
	method, bulkID, path, version string
	data                          any
	refs                          []string // bulkIds that it needs
	wrong                         error    // the operation is malformed
}

// bulkAnswer is the outcome of an operation.
type bulkAnswer struct {
	Method   string          `json:"method,omitempty"`
	BulkID   string          `json:"bulkId,omitempty"`
	Location string          `json:"location,omitempty"`
	Version  string          `json:"version,omitempty"`
	Status   string          `json:"status"`
	Response json.RawMessage `json:"response,omitempty"`

	left []string // what was left out
}

var (
	bulkPath = regexp.MustCompile(`^/(Users|Groups)(/[^/?#]{1,128})?$`)
	bulkIDs  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

const bulkPrefix = "bulkId:"

// bulk serves POST /scim/v2/Bulk. (RFC 7644 3.7) Each operation succeeds or fails by itself. An operation that names
// the bulkId of another one runs after it, wherever it stands; operations that name each other are refused.
func (s *Server) bulk(w http.ResponseWriter, r *http.Request, c *call) error {
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	ops, most, err := parseBulk(v)
	if err != nil {
		return err
	}
	made := map[string]string{} // bulkId to id
	bulks := map[string]bool{}  // bulkIds that are still to come
	answers := []bulkAnswer{}
	for _, op := range ops {
		if op.bulkID != "" {
			bulks[op.bulkID] = true
		}
	}
	for errorsSeen := 0; len(ops) > 0 && (most == 0 || errorsSeen < most); {
		i := slices.IndexFunc(ops, func(op bulkOperation) bool {
			return !slices.ContainsFunc(op.refs, func(ref string) bool { return bulks[ref] && ref != op.bulkID })
		})
		circular := i < 0
		i = max(i, 0)
		op := ops[i]
		ops = slices.Delete(ops, i, i+1)
		var a bulkAnswer
		if circular {
			a = op.refuse(&Error{Status: http.StatusConflict, Type: invalidValue, Detail: "operations name each other"})
		} else {
			a = s.run(r, c, op, made)
		}
		delete(bulks, op.bulkID)
		for _, left := range a.left {
			w.Header().Add(leftHeader, left)
		}
		if a.Status >= "400" {
			errorsSeen++
		}
		answers = append(answers, a)
	}
	write(w, http.StatusOK, object{"schemas": []string{bulkResponse}, "Operations": answers})
	return nil
}

func parseBulk(v any) (ops []bulkOperation, failOnErrors int, err error) {
	m, err := message(v, bulkRequest, "Operations", "failOnErrors")
	if err != nil {
		return nil, 0, err
	}
	if m["failOnErrors"] != nil {
		n, ok := m["failOnErrors"].(json.Number)
		if failOnErrors, err = strconv.Atoi(n.String()); err != nil || !ok || failOnErrors < 1 {
			return nil, 0, bad(invalidValue, "failOnErrors wants a whole number from 1")
		}
	}
	list, _ := m["Operations"].([]any)
	if len(list) == 0 {
		return nil, 0, bad(invalidSyntax, "Operations is missing")
	}
	if len(list) > maxBulk { // RFC 7644 3.7.4
		return nil, 0, &Error{Status: http.StatusRequestEntityTooLarge, Detail: "more than " + strconv.Itoa(maxBulk) + " operations"}
	}
	seen := map[string]int{}
	for _, v := range list {
		op := parseOperation(v)
		seen[op.bulkID]++
		ops = append(ops, op)
	}
	for i := range ops {
		if op := &ops[i]; op.bulkID != "" && seen[op.bulkID] > 1 {
			op.wrong = bad(invalidSyntax, "the bulkId is there twice")
		}
	}
	return ops, failOnErrors, nil
}

// parseOperation reads one operation. A malformed one is refused by itself, in its turn. (RFC 7644 3.7.3)
func parseOperation(v any) (op bulkOperation) {
	o, err := members(v, "method", "bulkId", "path", "version", "data")
	if err != nil {
		op.wrong = err
		return op
	}
	op = bulkOperation{
		method: strings.ToUpper(text(o, "method")), bulkID: text(o, "bulkId"), path: text(o, "path"),
		version: text(o, "version"), data: o["data"],
	}
	if op.bulkID != "" && !bulkIDs.MatchString(op.bulkID) || op.method == http.MethodPost && op.bulkID == "" {
		op.bulkID, op.wrong = "", bad(invalidSyntax, "bulkId wants 1 to 64 letters, digits and . _ -")
		return op
	}
	item := bulkPath.FindStringSubmatch(op.path)
	switch {
	case !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, op.method):
		op.method, op.wrong = "", bad(invalidSyntax, "method wants POST, PUT, PATCH or DELETE")
	case item == nil || (item[2] == "") != (op.method == http.MethodPost):
		op.wrong = bad(invalidPath, "path wants /Users or /Groups for POST, and a resource of them for other methods")
	default:
		op.refs = references(op.data, nil)
		if ref, ok := strings.CutPrefix(strings.TrimPrefix(item[2], "/"), bulkPrefix); ok {
			op.refs = append(op.refs, ref)
		}
	}
	return op
}

// references returns the bulkIds that a value names.
func references(v any, out []string) []string {
	switch v := v.(type) {
	case string:
		if ref, ok := strings.CutPrefix(v, bulkPrefix); ok {
			out = append(out, ref)
		} else if _, ref, ok := strings.Cut(v, `"`+bulkPrefix); ok { // in a path such as members[value eq "bulkId:x"]
			ref, _, _ = strings.Cut(ref, `"`)
			out = append(out, ref)
		}
	case object:
		for _, one := range v {
			out = references(one, out)
		}
	case []any:
		for _, one := range v {
			out = references(one, out)
		}
	}
	return out
}

// resolved replaces bulkIds by ids.
func resolved(v any, made map[string]string) any {
	switch v := v.(type) {
	case string:
		if ref, ok := strings.CutPrefix(v, bulkPrefix); ok && made[ref] != "" {
			return made[ref]
		}
		if before, rest, ok := strings.Cut(v, `"`+bulkPrefix); ok {
			if ref, after, closed := strings.Cut(rest, `"`); closed && made[ref] != "" {
				return before + `"` + made[ref] + `"` + after
			}
		}
		return v
	case object:
		out := make(object, len(v))
		for name, one := range v {
			out[name] = resolved(one, made)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = resolved(one, made)
		}
		return out
	}
	return v
}

func (op *bulkOperation) refuse(err error) bulkAnswer {
	e := asError(err)
	raw, _ := json.Marshal(e.body()) //nolint:errchkjson // texts
	return bulkAnswer{Method: op.method, BulkID: op.bulkID, Status: strconv.Itoa(e.Status), Response: raw}
}

// run carries out one operation as a request of its own.
func (s *Server) run(r *http.Request, c *call, op bulkOperation, made map[string]string) bulkAnswer {
	if op.wrong != nil {
		return op.refuse(op.wrong)
	}
	path := op.path
	if i := strings.LastIndexByte(path, '/'); strings.HasPrefix(path[i+1:], bulkPrefix) {
		path = path[:i+1] + made[strings.TrimPrefix(path[i+1:], bulkPrefix)]
	}
	for _, ref := range op.refs {
		if made[ref] == "" {
			return op.refuse(&Error{Status: http.StatusConflict, Type: invalidValue, Detail: "a bulkId stands for nothing that was made"})
		}
	}
	raw, err := json.Marshal(resolved(op.data, made))
	if err != nil {
		return op.refuse(err)
	}
	req, err := http.NewRequestWithContext(context.WithValue(r.Context(), callKey{}, c), op.method, prefix+path, bytes.NewReader(raw))
	if err != nil {
		return op.refuse(bad(invalidPath, "path cannot be read"))
	}
	req.Header.Set("Content-Type", mediaType)
	if op.version != "" {
		req.Header.Set("If-Match", op.version)
	}
	rec := &recorder{header: http.Header{}, status: http.StatusOK}
	s.mux.ServeHTTP(rec, req)
	if rec.status/100 == 3 { // the path has another form, such as one with dots: it names no resource
		return op.refuse(bad(invalidPath, "path names no resource"))
	}
	a := bulkAnswer{
		Method: op.method, BulkID: op.bulkID, Status: strconv.Itoa(rec.status), Version: rec.header.Get("ETag"),
		left: rec.header.Values(leftHeader),
	}
	if op.method != http.MethodPost {
		a.Location = s.deps.Issuer + prefix + path
	}
	if rec.status >= http.StatusBadRequest {
		a.Response = bytes.TrimSpace(rec.body.Bytes())
		return a
	}
	if op.method == http.MethodPost {
		a.Location = rec.header.Get("Location")
		made[op.bulkID] = a.Location[strings.LastIndexByte(a.Location, '/')+1:]
	}
	return a
}

// recorder records the answer to one operation.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
