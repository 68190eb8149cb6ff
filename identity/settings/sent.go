package settings

import (
	"errors"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// The units are checked as they will be stored. These functions say of an error where in the body of its request the
// wrong value is.

// relocated returns an error about members with other paths.
func relocated(err error, path func(string) string) error {
	e := new(jsonapi.Error)
	if !errors.As(err, &e) {
		return err
	}
	before, ok := e.Details.([]jsonapi.Problem)
	if !ok {
		return err
	}
	out, problems := *e, make([]jsonapi.Problem, len(before))
	for i, p := range before {
		problems[i] = p
		problems[i].Path = path(p.Path)
	}
	out.Details, out.Message = problems, problems[0].Problem
	if problems[0].Path != "" {
		out.Message = problems[0].Path + ": " + problems[0].Problem
	}
	return &out
}

// within returns an error with paths that begin in a part of the units, such as a unit: that part is the whole body.
func within(err error, part string) error {
	return relocated(err, func(path string) string {
		if rest, ok := strings.CutPrefix(path, part); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
			return strings.TrimPrefix(rest, ".")
		}
		return path
	})
}

const methodsPath = "login_methods.login_methods"

// sentMethods are the places that login methods had in the body, by their places after settling. -1: it was added.
type sentMethods []int

// placesOf returns the places in a body with these ids of the methods after settling.
func placesOf(sent []string, settled []LoginMethod) sentMethods {
	left := map[string][]int{}
	for i, id := range sent {
		left[id] = append(left[id], i)
	}
	out := make(sentMethods, len(settled))
	for i := range settled {
		out[i] = -1
		if places := left[settled[i].ID]; len(places) > 0 {
			out[i], left[settled[i].ID] = places[0], places[1:]
		}
	}
	return out
}

// of returns an error about settled units with the places of the body.
func (m sentMethods) of(err error) error {
	return relocated(err, func(path string) string {
		rest, ok := strings.CutPrefix(path, methodsPath+"[")
		number, rest, closed := strings.Cut(rest, "]")
		i, bad := strconv.Atoi(number)
		if !ok || !closed || bad != nil || i < 0 || i >= len(m) {
			return path
		}
		if m[i] < 0 {
			return methodsPath
		}
		return methodsPath + "[" + strconv.Itoa(m[i]) + "]" + rest
	})
}
