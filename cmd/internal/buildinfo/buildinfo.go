// Package buildinfo tells which build this is. It owns the version string, set
// by the linker (see the Makefile); what the linker did not set is read from
// what the Go tool recorded, and "dev" is the last resort. It cannot fail.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// version is set with -ldflags "-X …/buildinfo.version=v1.2.3".
var version string

// Info describes a build.
type Info struct {
	Version  string `json:"version"`            // e.g. v1.2.3, or dev
	Revision string `json:"revision,omitempty"` // commit the build was made from
	Modified bool   `json:"modified,omitempty"` // the checkout had changes of its own
	Go       string `json:"go"`                 // e.g. go1.26.0
	Platform string `json:"platform"`           // e.g. linux/amd64
}

// Read returns the description of this build.
func Read() Info {
	info := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if ok {
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Revision = s.Value
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
		if info.Version == "" && build.Main.Version != "(devel)" {
			info.Version = build.Main.Version
		}
	}
	if info.Version == "" {
		info.Version = "dev"
	}
	return info
}
