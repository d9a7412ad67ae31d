# Input filter of Doxygen (cmake/Doxyfile): turns the banner lines of a public header into sections of its page.
#
#   /* ==== Simple ==== */       starts a tier
#   /* ---- context ---- */      starts a section of the tier, "Simple: context"
#
# Line numbers stay the same.

function section(title)
{
    printf "%s/** @name %s */ /** @{ */\n", open ? "/** @} */ " : "", title
    open = 1
}

FNR == 1 { tier = ""; open = 0 }

/^\/\* ==== (Simple|Advanced|Experimental) =+ \*\/$/ {
    tier = $3
    section(tier)
    next
}

/^\/\* ---- .* -+ \*\/$/ && tier != "" {
    title = $0
    sub(/^\/\* ---- /, "", title)
    sub(/ -+ \*\/$/, "", title)
    section(tier ": " title)
    next
}

# The end of the last section: the closing brace of extern "C".
/^#ifdef __cplusplus$/ && open {
    print "/** @} */"
    open = 0
    held = 1
    next
}
held && /^}$/ { print ""; next }
held && /^#endif$/ { print ""; held = 0; next }

{ print }
