package e2e // its tests are under the build tag of that name; this file is what the package is without it
