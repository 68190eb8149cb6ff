package options

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"
)

// AppName is the id of the app and the name of its global option.
const AppName = "gatehouse"

// App returns the configured app as what the caller needs of it, or an error that says how to configure it.
func App[T any](ctx caddy.Context) (a T, err error) {
	found, err := ctx.AppIfConfigured(AppName)
	if errors.Is(err, caddy.ErrNotConfigured) {
		return a, errors.New("the global option gatehouse is missing: add `gatehouse { issuer https://auth.example.com }` to the global options")
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
