package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gearshift/serving/setting"
)

const (
	storeVariable = "GEARSHIFT_STORE"
	storeFile     = "gearshift.db"
	storeUsage    = "`file` that holds policies and training progress; default: " + storeVariable + ", else ./" + storeFile + " if it is there, else $XDG_DATA_HOME/gearshift/" + storeFile
)

// defaultStore is where the store is without --store: the file that the environment names,
// else that of this folder if it is there, else the one in the user's data folder. A user
// without a data folder has the one of this folder in any case.
func defaultStore() string {
	if path := setting.Env(storeVariable); path != "" {
		return path
	}
	data := dataFolder()
	if _, err := os.Stat(storeFile); err == nil || data == "" {
		return storeFile
	}
	return filepath.Join(data, storeFile)
}

// dataFolder is Gearshift's folder among the user's data, by the XDG base directories;
// "" if the user has none.
func dataFolder() string {
	// A relative one is to be ignored, by the specification.
	if data := setting.Env("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "gearshift")
	}
	home, err := os.UserHomeDir()
	if err != nil || !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, ".local", "share", "gearshift")
}

// makeDataFolder makes the folder of the default store, if the command has one and
// nothing else was said. A store whose folder cannot be made says so itself.
func makeDataFolder(c *cobra.Command) {
	f := c.Flag("store")
	if f == nil || f.Changed || setting.Env(storeVariable) != "" || filepath.Dir(f.Value.String()) != dataFolder() {
		return
	}
	_ = os.MkdirAll(filepath.Dir(f.Value.String()), 0o700)
}
