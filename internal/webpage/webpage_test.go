package webpage_test

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/webpage"
)

func TestIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, raw string
		want      bool
	}{
		{"doctype", "<!doctype html>\n<html>", true},
		{"capitals after a byte-order mark", "\xef\xbb\xbf\r\n<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\">", true},
		{"no doctype", "<html lang=en>", true},
		{"XHTML", `<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN">`, true},
		{"a comment first", "<!-- saved from https://login.example.com -->\n<html>", true},
		{"cut", "<html", true},
		{"metadata", `<?xml version="1.0"?><EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata">`, false},
		{"metadata with a prefix", `<html:EntityDescriptor/>`, false},
		{"JSON", `{"a":"<html>"}`, false},
		{"a longer name", "<htmlx>", false},
		{"a comment without an end", "<!-- <html>", false},
		{"far behind", strings.Repeat(" ", 1000) + "<html>", false},
		{"nothing", "", false},
	} {
		if got := webpage.Is([]byte(tt.raw)); got != tt.want {
			t.Errorf("%s: Is(%q) = %t, want %t", tt.name, tt.raw, got, tt.want)
		}
	}
}
