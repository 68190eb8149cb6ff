// Package inspect checks a configuration before it runs, and the addresses of a server from outside, for `caddy
// gatehouse check`.
package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
)

// Adapt returns the JSON of a configuration file, and the warnings of its adapter. Caddy's own function logs them, and
// more, as JSON. The file - is stdin.
func Adapt(file, adapter string, stdin io.Reader) (config []byte, warnings []caddyconfig.Warning, err error) {
	if file == "-" {
		config, err = io.ReadAll(stdin)
	} else {
		config, err = os.ReadFile(file) //nolint:gosec // the operator names it
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the configuration: %w", err)
	}
	if base := strings.ToLower(filepath.Base(file)); adapter == "" && filepath.Ext(base) != ".json" &&
		(strings.HasPrefix(base, "caddyfile") || strings.HasSuffix(base, ".caddyfile")) {
		adapter = "caddyfile"
	}
	if adapter == "" {
		if !json.Valid(config) {
			return nil, nil, fmt.Errorf("%s is not JSON: name its adapter, such as --adapter caddyfile", file)
		}
		return config, nil, nil
	}
	with := caddyconfig.GetAdapter(adapter)
	if with == nil {
		return nil, nil, fmt.Errorf("--adapter: %q is unknown", adapter)
	}
	return with.Adapt(config, map[string]any{"filename": file})
}

// Quiet makes the log of this process have errors alone, before a configuration says how to log.
func Quiet() error { return caddy.Validate(&caddy.Config{Logging: errorsOnly(nil)}) }

// Validate provisions a configuration, as `caddy validate` does. Only errors are logged to the terminal: the findings
// say the rest.
func Validate(raw []byte) error {
	var config caddy.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	config.Logging = errorsOnly(config.Logging)
	return caddy.Validate(&config)
}

// Reloads returns the warnings about servers of a configuration that can lose requests at a reload.
func Reloads(raw []byte) []diagnostic.Finding {
	var config struct {
		Apps struct {
			HTTP caddyhttp.App `json:"http"`
		} `json:"apps"`
	}
	if json.Unmarshal(raw, &config) != nil { // Validate says what is wrong
		return nil
	}
	return routetree.Reloads(&config.Apps.HTTP)
}

// errorsOnly makes the logs that go to the terminal have errors alone.
func errorsOnly(logging *caddy.Logging) *caddy.Logging {
	if logging == nil {
		logging = new(caddy.Logging)
	}
	if logging.Logs == nil {
		logging.Logs = map[string]*caddy.CustomLog{}
	}
	if logging.Logs[caddy.DefaultLoggerName] == nil {
		logging.Logs[caddy.DefaultLoggerName] = new(caddy.CustomLog)
	}
	for _, l := range logging.Logs {
		if l != nil && l.WriterRaw == nil {
			l.Level = "ERROR"
		}
	}
	return logging
}
