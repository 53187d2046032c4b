/* Bounds of an ELF file, checked before a loader trusts them. */
#include <elf.h>
#include <string.h>

#include "backend.h"

static bool inside(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

static bool sections_inside(const unsigned char *bytes, size_t size, const Elf64_Ehdr *header) {
    if (header->e_shnum == 0)
        return true;
    if (header->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(header->e_shoff, (uint64_t)header->e_shnum * sizeof(Elf64_Shdr), size))
        return false;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, bytes + header->e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
            !inside(section.sh_offset, section.sh_size, size))
            return false;
    }
    return true;
}

static bool segments_inside(const unsigned char *bytes, size_t size, const Elf64_Ehdr *header) {
    if (header->e_phnum == 0)
        return true;
    if (header->e_phentsize != sizeof(Elf64_Phdr) ||
        !inside(header->e_phoff, (uint64_t)header->e_phnum * sizeof(Elf64_Phdr), size))
        return false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, bytes + header->e_phoff + i * sizeof segment, sizeof segment);
        if (!inside(segment.p_offset, segment.p_filesz, size))
            return false;
    }
    return true;
}

mlpbwd_status elf_check(const void *bytes, size_t size, const char *what, mlp_message *why) {
    Elf64_Ehdr header;
    if (size < sizeof header || memcmp(bytes, ELFMAG, SELFMAG) != 0)
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "the %s of %zu bytes is not an ELF file", what, size);
    memcpy(&header, bytes, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || !sections_inside(bytes, size, &header) ||
        !segments_inside(bytes, size, &header))
        return mlp_fail(why, MLPBWD_DATABASE_ERROR, "the %s of %zu bytes is cut short or damaged", what, size);
    return MLPBWD_OK;
}
