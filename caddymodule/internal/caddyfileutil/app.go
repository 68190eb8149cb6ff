package caddyfileutil

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// AppName is the id of the app and the name of its global option.
const AppName = "gatehouse"

// App returns the configured app as what the caller needs of it, or an error that says how to configure it.
// by names the asking module.
func App[T any](ctx caddy.Context, by string) (a T, err error) {
	found, err := ctx.AppIfConfigured(AppName)
	if errors.Is(err, caddy.ErrNotConfigured) {
		return a, ErrNoApp(by)
	}
	if err != nil {
		return a, err
	}
	a, ok := found.(T)
	if !ok {
		return a, fmt.Errorf("the app %s is a %T", AppName, found)
	}
	return a, nil
}

// ErrNoApp is the error of a directive that needs the global option, which is missing.
func ErrNoApp(by string) error {
	return fmt.Errorf("%s: the global option gatehouse is missing: add `{ gatehouse { issuer https://auth.example.com } }` at the top of the Caddyfile", by)
}

// AtPlace adds a place to an error that has none. "": it is unknown.
func AtPlace(place string, err error) error {
	if placed.MatchString(err.Error()) {
		return err
	}
	return located(err, place)
}
