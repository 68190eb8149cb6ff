package settings

import (
	"context"
	"reflect"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// Origin is the source of the value of a member.
type Origin int

// The origins.
const (
	FromDefault   Origin = iota // no one has set it
	FromCaddyfile               // a switch that the Caddyfile sets, and nothing stored overrules
	FromStorage                 // it was set by the configuration API, a command or the console
)

// Member is one value of a unit, as an administrator reads and sets it: a switch, a number, a text or a list.
type Member struct {
	Path string // features.sign_up_enabled
	// Check says which values are valid: int,1,4 or enum,A|B. Other forms are for the configuration API to judge.
	Check string
	// Value and Standard are JSON. Standard is what holds while no one sets the member, the Caddyfile's switches
	// included.
	Value, Standard string
	Switch          bool
	Origin          Origin
	// Overrules reports whether the Caddyfile says something else.
	Overrules bool
}

// UnitState is one unit at one moment.
type UnitState struct {
	Name string
	// Tag is the entity tag of the configuration API, without its quotes.
	Tag     string
	Members []Member
	// JSON is the unit as EditUnit takes the whole of it: without secrets, and without login methods of the Caddyfile.
	JSON []byte
}

// UnitStates returns all units, and the entity tag of all of them together.
func (s *Service) UnitStates(ctx context.Context) (list []UnitState, tag string, err error) {
	st, err := s.current(ctx)
	if err != nil {
		return nil, "", err
	}
	stored := *st.units
	s.withoutFixed(&stored)
	for _, un := range table {
		one := UnitState{Name: un.name, Tag: unitView(un).version(st), JSON: encode(un.of(&stored))}
		unset := reflect.ValueOf(un.of(s.standard)).Elem()
		s.members(reflect.ValueOf(un.of(&stored)).Elem(), unset, Member{Path: un.name}, st.chosen, &one.Members)
		list = append(list, one)
	}
	return list, s.wholeView().version(st), nil
}

// members adds the members of an object. An array, and an object with free names, is one member.
func (s *Service) members(v, standard reflect.Value, m Member, set chosen, out *[]Member) {
	if v.Kind() == reflect.Struct {
		for f := range wire.Fields(v.Type()) {
			s.members(v.Field(f.Index), standard.Field(f.Index), Member{Path: m.Path + "." + f.Name, Check: f.Check}, set, out)
		}
		return
	}
	m.Value, m.Standard = string(encode(v.Interface())), string(encode(standard.Interface()))
	said, declared := s.cfg.Switches[m.Path]
	switch m.Switch = v.Kind() == reflect.Bool; {
	case m.Switch && set[m.Path], !m.Switch && m.Value != m.Standard:
		m.Origin, m.Overrules = FromStorage, declared && said != v.Bool()
	case declared:
		m.Origin = FromCaddyfile
	}
	*out = append(*out, m)
}

// EditUnit changes a unit that had this entity tag when it was read. The JSON has any of its members, also where the
// configuration API demands all of them. With whole, it has all of the unit: absent members get their defaults, absent
// entries are removed. Switches that stay as they are stay unset.
func (s *Service) EditUnit(ctx context.Context, name, tag string, raw []byte, whole bool, by audit.Actor) (changed []Change, err error) {
	un := unitNamed(name)
	e := edit{by: by, apply: un.merge(raw), report: &changed, match: func(st *state) bool { return unitView(un).version(st) == tag }}
	if whole {
		e.apply, e.keepIDs = un.replace(raw, s.standard), true
	}
	_, err = s.update(ctx, e)
	return changed, within(err, un.name)
}

// ResetMember gives a member of a unit that had this entity tag when it was read its default. A switch follows the
// Caddyfile again. An unknown path changes nothing.
func (s *Service) ResetMember(ctx context.Context, name, tag, path string, by audit.Actor) (changed []Change, err error) {
	un, paths := unitNamed(name), []string{path}
	if path == twin || path == otherTwin {
		paths = []string{twin, otherTwin}
	}
	_, err = s.update(ctx, edit{
		by: by, unset: paths, report: &changed, match: func(st *state) bool { return unitView(un).version(st) == tag },
		apply: func(u *Units) error {
			reset(reflect.ValueOf(un.of(u)).Elem(), reflect.ValueOf(un.of(s.standard.clone())).Elem(), un.name, paths)
			return nil
		},
	})
	return changed, within(err, un.name)
}

// reset gives the members of these paths the values of standard. A member is what members calls one.
func reset(v, standard reflect.Value, at string, paths []string) {
	if v.Kind() == reflect.Struct {
		for f := range wire.Fields(v.Type()) {
			reset(v.Field(f.Index), standard.Field(f.Index), at+"."+f.Name, paths)
		}
		return
	}
	if slices.Contains(paths, at) {
		v.Set(standard)
	}
}

// ImportAt is Import for units that had this entity tag, of all of them together, when they were read.
func (s *Service) ImportAt(ctx context.Context, raw []byte, tag string, by audit.Actor) error {
	_, err := s.updateAll(ctx, raw, by, func(st *state) bool { return s.wholeView().version(st) == tag })
	return err
}
