package scim

import (
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// patchGroup serves PATCH /scim/v2/Groups/{id}. (RFC 7644 3.5.2) Members are added and removed one by one, since a
// group may have very many.
func (s *Server) patchGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	read := new(reader)
	ops, err := read.parsePatch(groupType, v)
	if err != nil {
		return err
	}
	if ops, err = splitMembers(ops); err != nil {
		return err
	}
	return s.updateGroup(w, r, c, read, func(tx storage.Tx, now object, change *person.GroupChange) error {
		p := memberPatch{Server: s, tx: tx, group: text(now, "id"), change: change}
		for _, op := range ops {
			about := op.path != nil && op.path.attr.name == "members"
			if !about {
				if err := groupType.apply(now, []operation{op}); err != nil {
					return err
				}
				continue
			}
			if err := p.apply(op); err != nil {
				return err
			}
		}
		applyGroup(change, now)
		return nil
	})
}

// splitMembers turns the members of an operation on the whole resource into an operation with the path members.
func splitMembers(ops []operation) (out []operation, err error) {
	for _, op := range ops {
		o, ok := op.value.(object)
		if op.path != nil || !ok {
			out = append(out, op)
			continue
		}
		rest := object{}
		for name, v := range o {
			if !equalFold(name, "members") {
				rest[name] = v
				continue
			}
			p, err := groupType.path("members")
			if err != nil {
				return nil, err
			}
			out = append(out, operation{op.op, p, v, op.read})
		}
		if len(rest) > 0 {
			out = append(out, operation{op.op, nil, rest, op.read})
		}
	}
	return out, nil
}

// memberPatch gathers the changes that the operations of a PATCH make to the members.
type memberPatch struct {
	*Server

	tx     storage.Tx
	group  string
	change *person.GroupChange
}

func (p *memberPatch) apply(op operation) error {
	c := p.change
	if op.path.sub != nil {
		return bad(mutability, "members are added and removed, not changed")
	}
	if op.op != "remove" && op.path.filter != nil {
		return bad(invalidPath, "members are added without a condition")
	}
	var ids []string
	if op.value != nil {
		v, err := op.read.value(op.path.attr, op.value, "members")
		if err != nil {
			return err
		}
		list, _ := v.([]any)
		if ids, err = memberIDs(list); err != nil {
			return err
		}
	}
	switch {
	case op.op == "add":
		c.Remove = slices.DeleteFunc(c.Remove, func(id string) bool { return slices.Contains(ids, id) })
		c.Add = append(c.Add, ids...)
	case op.op == "replace":
		c.Add, c.Remove, c.Clear = ids, nil, true
	case op.path.filter == nil && op.value == nil:
		c.Add, c.Remove, c.Clear = nil, nil, true
	default:
		if op.path.filter != nil {
			var err error
			if ids, err = p.meeting(op.path.filter); err != nil {
				return err
			}
		}
		c.Add = slices.DeleteFunc(c.Add, func(id string) bool { return slices.Contains(ids, id) })
		c.Remove = append(c.Remove, ids...)
	}
	if len(c.Add)+len(c.Remove) > maxOperations {
		return &person.TooManyError{Field: "members", Most: maxOperations}
	}
	return nil
}

// meeting returns the members that meet a condition. Usually the condition names a member.
func (p *memberPatch) meeting(f filter) ([]string, error) {
	if c, ok := f.(comparison); ok && c.op == "eq" && c.attr.name == "value" {
		id, _ := c.value.(string)
		return []string{id}, nil
	}
	list, err := p.memberTrees(p.tx, p.group)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range list {
		if one, ok := v.(object); ok && f.match(one) {
			out = append(out, text(one, "value"))
		}
	}
	return out, nil
}
