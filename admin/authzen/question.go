package authzen

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/strictjson"
)

func check(raw []byte) error { return strictjson.Check(raw, jsonapi.MaxDepth) }

// object is a JSON object whose members are found by their exact names.
type object map[string]json.RawMessage

func invalid(path, problem string) error {
	return jsonapi.Invalid(jsonapi.Problem{Path: path, Problem: problem})
}

// object returns a member that is an object, or nil if it is absent.
func (o object) object(name string) (out object, err error) {
	if o[name] == nil {
		return nil, nil
	}
	if json.Unmarshal(o[name], &out) != nil || out == nil {
		return nil, invalid(name, "must be an object")
	}
	return out, nil
}

// text returns a member that is a text with something in it.
func (o object) text(name string) (s string, ok bool) {
	return s, json.Unmarshal(o[name], &s) == nil && s != ""
}

func (o object) list(name string) (out []object, err error) {
	if o[name] == nil {
		return nil, nil
	}
	if json.Unmarshal(o[name], &out) != nil || slices.ContainsFunc(out, func(item object) bool { return item == nil }) {
		return nil, invalid(name, "must be a list of objects")
	}
	return out, nil
}

// with returns the members of a question of several: its own, and those of all where it has none, within subject,
// resource, action and context too. (Authorization API 1.0 7.1.1)
func (o object) with(item object) object {
	out := maps.Clone(o)
	for name, own := range item {
		var above, below object
		if json.Unmarshal(o[name], &above) == nil && json.Unmarshal(own, &below) == nil && above != nil && below != nil {
			maps.Copy(above, below)
			if merged, err := json.Marshal(above); err == nil {
				own = merged
			}
		}
		out[name] = own
	}
	return out
}

// entity returns a member that must be there with these texts, and its properties.
func (o object) entity(name string, texts ...string) (values []string, properties object, err error) {
	e, err := o.object(name)
	if err != nil {
		return nil, nil, err
	}
	if e == nil {
		return nil, nil, invalid(name, "is required")
	}
	for _, member := range texts {
		v, ok := e.text(member)
		if !ok {
			return nil, nil, invalid(name+"."+member, "is required, a text")
		}
		values = append(values, v)
	}
	if properties, err = e.object("properties"); err != nil {
		return nil, nil, invalid(name+".properties", "must be an object")
	}
	return values, properties, nil
}

// question reads what is asked. Its error is a *jsonapi.Error about the first thing that is wrong.
func question(in object) (q Question, err error) {
	subject, about, err := in.entity("subject", "type", "id")
	if err != nil {
		return q, err
	}
	resource, of, err := in.entity("resource", "type", "id")
	if err != nil {
		return q, err
	}
	action, _, err := in.entity("action", "name")
	if err != nil {
		return q, err
	}
	context, err := in.object("context")
	if err != nil {
		return q, err
	}
	if err := q.readSubject(subject[0], subject[1], about); err != nil {
		return q, err
	}
	if err := q.readResource(resource[1], of); err != nil {
		return q, err
	}
	if q.Method = method(action[0]); q.Method == "" {
		return q, invalid("action.name", "want an HTTP method, or read, create, update or delete")
	}
	if context["ip"] != nil {
		ip, ok := context.text("ip")
		if !ok {
			return q, invalid("context.ip", "must be an address")
		}
		q.IP = ip
	}
	return q, nil
}

func (q *Question) readSubject(kind, id string, about object) error {
	switch kind {
	case "user", "person":
		q.Person = id
	case "client":
		q.Client = id
	case "anonymous":
	default:
		return invalid("subject.type", "want user, client or anonymous")
	}
	if about["level"] != nil && (json.Unmarshal(about["level"], &q.Level) != nil || q.Level < 1 || q.Level > 4) {
		return invalid("subject.properties.level", "want a number from 1 to 4")
	}
	if kind != "client" && about["client"] != nil {
		by, ok := about.text("client")
		if !ok || q.Person == "" {
			return invalid("subject.properties.client", "want the id of the client by which a user comes")
		}
		q.Client = by
	}
	if about["scopes"] != nil && json.Unmarshal(about["scopes"], &q.Scopes) != nil {
		return invalid("subject.properties.scopes", "must be a list of texts")
	}
	return nil
}

// readResource finds the address of the site: the id itself, or of a route that names its host.
func (q *Question) readResource(id string, of object) error {
	isAddress := func(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }
	uri, _ := of.text("uri")
	host, _ := of.text("hostname")
	switch {
	case isAddress(id):
		q.URL = id
	case isAddress(uri):
		q.URL = uri
	case host != "" && strings.HasPrefix(id, "/"):
		q.URL = "https://" + host + id
	default:
		return invalid("resource.id", "want the address of a site, or a path with the property hostname")
	}
	if of["policy"] != nil {
		gate, ok := of.text("policy")
		if !ok {
			return invalid("resource.properties.policy", "must be the name of a policy or forward_auth")
		}
		q.Gate = gate
	}
	return nil
}

// methods are the actions that are methods, and words of others for them.
var methods = map[string]string{
	"read": http.MethodGet, "create": http.MethodPost, "update": http.MethodPut, "write": http.MethodPut, "delete": http.MethodDelete,
}

// method returns the HTTP method of an action, or "". An action that no policy can know is never allowed.
func method(action string) string {
	switch m := strings.ToUpper(action); m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return m
	}
	return methods[strings.TrimPrefix(strings.ToLower(action), "can_")]
}
