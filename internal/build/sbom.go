package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"
)

// bom is a bill of materials in CycloneDX 1.6: the modules of a binary, as the go command recorded them in it.
//
// It is written here, not by cyclonedx-gomod, because the list is in the binary already: reading it takes no network,
// no further tool, and no time that `make build` would notice.
type bom struct {
	Format       string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"` // the same for the same components
	Version      int         `json:"version"`
	Metadata     bomMetadata `json:"metadata"`
	Components   []component `json:"components"`
}

type bomMetadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref,omitempty"`
	Name       string     `json:"name"`
	Version    string     `json:"version,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// writeBOM writes the bill of materials of a binary to a file.
func writeBOM(bin, file string) error {
	b, err := readBOM(bin)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(raw, '\n'), 0o644)
}

// readBOM reads what a binary is made of: each module, and the standard library.
func readBOM(bin string) (*bom, error) {
	info, err := buildinfo.ReadFile(bin)
	if err != nil {
		return nil, fmt.Errorf("bill of materials: %w", err)
	}
	b := &bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1}
	b.Metadata.Component = component{Type: "application", Name: "gatehouse"}
	for _, s := range info.Settings {
		if strings.HasPrefix(s.Key, "-") || s.Key == "CGO_ENABLED" || s.Key == "GOOS" || s.Key == "GOARCH" {
			b.Metadata.Component.Properties = append(b.Metadata.Component.Properties, property{"go:build:" + s.Key, s.Value})
		}
	}
	b.Components = append(b.Components, library("stdlib", info.GoVersion))
	for _, d := range info.Deps {
		b.Components = append(b.Components, dependency(d))
	}
	parts, err := json.Marshal(b.Components)
	if err != nil {
		return nil, err
	}
	b.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, parts).String()
	return b, nil
}

func dependency(d *debug.Module) component {
	c := library(d.Path, d.Version)
	if d.Sum != "" {
		c.Properties = append(c.Properties, property{"go:sum", d.Sum})
	}
	if r := d.Replace; r != nil {
		// not its path, which belongs to this machine
		c.Properties = append(c.Properties, property{"go:replaced", strings.TrimSpace(r.Version + " " + r.Sum)})
	}
	return c
}

// library describes a Go module, with its package URL.
func library(path, version string) component {
	purl := "pkg:golang/" + (&url.URL{Path: path}).EscapedPath() + "@" + url.PathEscape(version)
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}
