#!/usr/bin/env bash
# Maps: tiles of an area are kept in an SQLite database (MBTiles) as they are fetched, seen again, and fetched anew when they are old.
# usage: maps.sh DIRECTORY [CACHE]
# packages: sqlite3 imagemagick
# shellcheck source-path=SCRIPTDIR
set -euo pipefail
source "$(dirname "$0")/load.sh"

# Tiles on each side of the area at the deepest zoom, and of a sheet of the map; the trips over it.
SIDE=24
SHEET=4
TRIPS=8

prepare() {
    local row column
    mkdir tiles
    for row in $(seq 0 $SHEET $((SIDE - 1))); do
        for column in $(seq 0 $SHEET $((SIDE - 1))); do
            convert -seed $((row * SIDE + column)) -size 1024x1024 plasma:tan-green -posterize 24 -depth 8 sheet.png
            cut_sheet 1 "$row" "$column"
            # In the second year roads are drawn on every third sheet, and the others are as they were.
            if (((row + column) / SHEET % 3 == 0)); then mogrify -stroke red -strokewidth 9 -draw 'line 100,100 900,700' sheet.png; fi
            cut_sheet 2 "$row" "$column"
        done
    done
    rm sheet.png
}

# cut_sheet YEAR ROW COLUMN: cuts the sheet whose first tile is there.
cut_sheet() {
    local tile
    convert sheet.png -crop 256x256 +repage -define png:exclude-chunks=date,time "tile%d.png"
    for tile in $(seq 0 $((SHEET * SHEET - 1))); do
        mv "tile$tile.png" "tiles/$1-$((($2 + tile / SHEET) * SIDE + $3 + tile % SHEET)).png"
    done
}

# tiles YEAR FIRST COUNT: prints what stores COUNT rows of tiles from the row FIRST on, eight tiles in each transaction.
tiles() {
    local row column
    echo "BEGIN;"
    for row in $(seq "$2" $(($2 + $3 - 1))); do
        for column in $(seq 0 $((SIDE - 1))); do
            echo "INSERT OR REPLACE INTO tiles VALUES (5, $column, $row, readfile('$CACHE/tiles/$1-$((row * SIDE + column)).png'));"
            if ((column % 8 == 7)); then echo "COMMIT; BEGIN;"; fi
        done
    done
    echo "COMMIT;"
}

work() {
    local trip
    sqlite3 map.mbtiles "PRAGMA journal_mode=TRUNCATE; CREATE TABLE metadata (name TEXT, value TEXT);
        CREATE TABLE tiles (zoom_level INTEGER, tile_column INTEGER, tile_row INTEGER, tile_data BLOB);
        CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);
        INSERT INTO metadata VALUES ('name', 'load'), ('format', 'png')" >/dev/null
    for trip in $(seq 0 $((TRIPS - 1))); do
        # Each trip sees an area that overlaps the one before; what it has not, it fetches. From the fifth on, tiles are of the new year.
        tiles $((trip / 4 + 1)) $((trip * 5 % (SIDE - 8))) 8 | sqlite3 map.mbtiles
        sqlite3 map.mbtiles "SELECT sum(length(tile_data)) FROM tiles WHERE tile_row > $trip" >/dev/null
        forget
    done
    # The area is sold as a file of its own, and old tiles are deleted.
    sqlite3 map.mbtiles "ATTACH 'area.mbtiles' AS area; CREATE TABLE area.tiles AS SELECT * FROM tiles WHERE tile_row < 12;
        DELETE FROM tiles WHERE tile_row < 4; VACUUM"
}

run_load "$@"
